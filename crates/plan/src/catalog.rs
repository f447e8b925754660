//! What a session knows by name: tables, views, functions, settings.
//!
//! Names are case sensitive, as in Flink, quoted or not; an unknown name gets a hint at the one that was probably meant.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion_expr::{AggregateUDF, ScalarUDF};
use pelton_data::column::sql_name;
use pelton_data::table_function::TableFunctionHandle;
use sqlparser::ast::{Expr, ObjectName, ObjectNamePart, Visit, Visitor};

use crate::errors::{Place, PlanError, closest};
use crate::parse::{ColumnDefinition, ColumnKind, Dropped, Named, TableDefinition, ViewDefinition, check_columns};
use crate::types::SqlType;

/// The table, of any session, that has the rows which came too late for its queries.
pub const LATE_ROWS: &str = "late_rows";

/// Tables that stand for files, unless views read more.
const FILES_MAX: usize = 1_000;

/// A table of the catalogue.
#[derive(Debug, Clone)]
pub struct Table {
    /// As declared; its columns are never empty.
    pub definition: TableDefinition,
    /// The columns the connector delivers (physical and metadata columns, in the order declared), with the Arrow types it
    /// delivers them in: a STRING may be a dictionary of strings.
    pub physical: SchemaRef,
    /// Whether its rows end.
    pub bounded: bool,
}

/// What a name of the catalogue stands for.
#[derive(Debug, Clone, Copy)]
pub enum Relation<'a> {
    /// A table.
    Table(&'a Table),
    /// A view.
    View(&'a ViewDefinition),
}

/// Tables, views, functions and settings of a session. A copy shares the tables.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    tables: BTreeMap<String, Arc<Table>>,
    system_tables: BTreeMap<String, Table>,
    /// Those that stand for files, each with the number of files that had been added with it.
    files: BTreeMap<String, (u64, Arc<Table>)>,
    files_added: u64,
    views: BTreeMap<String, ViewDefinition>,
    functions: BTreeMap<String, Arc<ScalarUDF>>,
    aggregates: BTreeMap<String, Arc<AggregateUDF>>,
    table_functions: BTreeMap<String, TableFunctionHandle>,
    settings: BTreeMap<String, String>,
}

impl Table {
    /// A table whose connector delivers `delivered`: the columns declared, in Arrow types that show as the declared ones.
    pub fn new(definition: TableDefinition, delivered: Schema, bounded: bool) -> Result<Table, PlanError> {
        let declared = definition.physical_schema();
        let matches = declared.fields().len() == delivered.fields().len()
            && declared.fields().iter().zip(delivered.fields()).all(|(declared, delivered)| {
                declared.name() == delivered.name()
                    && SqlType::from_arrow(declared.data_type()) == SqlType::from_arrow(delivered.data_type())
            });
        assert!(matches, "the connector delivers {delivered:?} for a table that declares {declared:?}");
        Ok(Table { definition, physical: Arc::new(delivered), bounded })
    }
}

impl TableDefinition {
    /// Adds the columns that the table's connector or its data told, before those declared.
    ///
    /// # Errors
    /// Where no column can have such a type, or what is declared does not fit the columns.
    pub fn complete(&mut self, stored: &Schema) -> Result<(), PlanError> {
        let inferred = columns_of(self, stored)?;
        let declared = std::mem::take(&mut self.columns);
        self.columns = inferred.into_iter().chain(declared).collect();
        self.has_guessed_types = true;
        check_columns(self)
    }
}

fn columns_of(definition: &TableDefinition, delivered: &Schema) -> Result<Vec<ColumnDefinition>, PlanError> {
    let column = |field: &Arc<arrow::datatypes::Field>| match SqlType::from_arrow(field.data_type()) {
        Some(sql_type) => Ok(ColumnDefinition {
            name: field.name().clone(),
            place: definition.place,
            kind: ColumnKind::Physical { sql_type, nullable: field.is_nullable() },
            comment: None,
        }),
        None => Err(PlanError::unsupported(
            definition.place,
            format!("the type {} of column {} of table {}", sql_name(field.data_type()), field.name(), definition.name),
            "list the columns to be read in CREATE TABLE",
        )),
    };
    delivered.fields().iter().map(column).collect()
}

impl Catalog {
    /// Adds a table. An existing one of the same name is an error, or stays with `IF NOT EXISTS`.
    pub fn add_table(&mut self, table: Table) -> Result<(), PlanError> {
        let definition = &table.definition;
        if self.is_free(&definition.name, definition.place, definition.if_not_exists)? {
            self.tables.insert(table.definition.name.clone(), Arc::new(table));
        }
        Ok(())
    }

    /// Adds a table of the session's own, which is read as others are, and not listed among them.
    pub fn add_system_table(&mut self, table: Table) {
        self.system_tables.insert(table.definition.name.clone(), table);
    }

    /// Adds the table that stands for a file, in place of the one that did before. Each statement adds its own, so those that were added long ago are
    /// forgotten, unless a view reads them.
    pub fn add_file(&mut self, table: Table) {
        self.files_added += 1;
        self.files.insert(table.definition.name.clone(), (self.files_added, Arc::new(table)));
        if self.files.len() > FILES_MAX {
            let recent = self.files_added - FILES_MAX as u64 / 2;
            let read = self.names_in_views();
            self.files.retain(|name, (number, _)| *number > recent || read.contains(name));
        }
    }

    /// Names in the queries of views, those of their tables among them.
    fn names_in_views(&self) -> HashSet<String> {
        #[derive(Default)]
        struct Names(HashSet<String>);
        impl Visitor for Names {
            type Break = ();

            fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
                self.0.extend(relation.0.last().and_then(ObjectNamePart::as_ident).map(|name| name.value.clone()));
                ControlFlow::Continue(())
            }

            // Tables are expressions in the arguments of window functions.
            fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
                if let Expr::Identifier(name) = expression {
                    self.0.insert(name.value.clone());
                }
                ControlFlow::Continue(())
            }
        }
        let mut names = Names::default();
        for view in self.views.values() {
            let _ = view.query.visit(&mut names);
        }
        names.0
    }

    /// Adds a view. An existing one of the same name is an error, or stays with `IF NOT EXISTS`.
    pub fn add_view(&mut self, view: ViewDefinition) -> Result<(), PlanError> {
        if self.is_free(&view.name, view.place, view.if_not_exists)? {
            self.views.insert(view.name.clone(), view);
        }
        Ok(())
    }

    fn is_free(&self, name: &str, place: Option<Place>, if_not_exists: bool) -> Result<bool, PlanError> {
        let kind = match self.get(name) {
            None => return Ok(true),
            Some(_) if if_not_exists => return Ok(false),
            Some(Relation::Table(_)) => "table",
            Some(Relation::View(_)) => "view",
        };
        let message = format!("the {kind} {name} exists already");
        Err(PlanError::invalid(place, message).with_hint("choose another name, or add IF NOT EXISTS"))
    }

    /// Forgets a table; its absence is an error unless `if_exists`.
    pub fn drop_table(&mut self, dropped: &Dropped) -> Result<(), PlanError> {
        match self.resolve(&dropped.target) {
            Err(_) if dropped.if_exists => return Ok(()),
            Err(error) => return Err(error),
            Ok(Relation::View(_)) => {
                let message = format!("{} is a view", dropped.target.name);
                return Err(PlanError::invalid(dropped.target.place, message).with_hint("use DROP VIEW"));
            }
            Ok(Relation::Table(table)) if self.system_tables.contains_key(&table.definition.name) => {
                let message = format!("{} is a table of the session itself", dropped.target.name);
                return Err(PlanError::invalid(dropped.target.place, message).with_hint("it cannot be dropped"));
            }
            Ok(Relation::Table(_)) => {}
        }
        self.tables.remove(&dropped.target.name);
        Ok(())
    }

    /// Forgets a view; its absence is an error unless `if_exists`.
    pub fn drop_view(&mut self, dropped: &Dropped) -> Result<(), PlanError> {
        match self.resolve(&dropped.target) {
            Err(_) if dropped.if_exists => return Ok(()),
            Err(error) => return Err(error),
            Ok(Relation::Table(_)) => {
                let message = format!("{} is a table", dropped.target.name);
                return Err(PlanError::invalid(dropped.target.place, message).with_hint("use DROP TABLE"));
            }
            Ok(Relation::View(_)) => {}
        }
        self.views.remove(&dropped.target.name);
        Ok(())
    }

    /// What `name` stands for.
    pub fn get(&self, name: &str) -> Option<Relation<'_>> {
        let table = self.tables.get(name).map(|table| Relation::Table(table));
        let table = table.or_else(|| self.views.get(name).map(Relation::View));
        let table = table.or_else(|| self.files.get(name).map(|(_, table)| Relation::Table(table)));
        table.or_else(|| self.system_tables.get(name).map(Relation::Table))
    }

    /// Whether the table `name` of an earlier version of the catalogue was neither dropped nor replaced since. Only tables that `CREATE TABLE` or the
    /// program made can be.
    pub fn has_still(&self, name: &str, earlier: &Catalog) -> bool {
        let Some(table) = earlier.tables.get(name) else { return true };
        self.tables.get(name).is_some_and(|now| Arc::ptr_eq(now, table))
    }

    /// What `name` stands for, or an error that suggests the name that was probably meant.
    pub fn resolve(&self, named: &Named) -> Result<Relation<'_>, PlanError> {
        self.get(&named.name).ok_or_else(|| self.unknown(named))
    }

    /// The error for a name that stands for nothing.
    pub fn unknown(&self, named: &Named) -> PlanError {
        let error = PlanError::invalid(named.place, format!("there is no table or view {}", named.name));
        let names = self.tables.keys().chain(self.views.keys()).chain(self.system_tables.keys()).map(String::as_str);
        match closest(&named.name, names) {
            Some(name) => error.with_hint(format!("did you mean {name}? (names are case sensitive)")),
            None => error.with_hint("SHOW TABLES lists what there is"),
        }
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values().map(Arc::as_ref)
    }

    /// All views, by name.
    pub fn views(&self) -> impl Iterator<Item = &ViewDefinition> {
        self.views.values()
    }

    /// Makes a scalar function available to queries, in place of any other of the same name.
    pub fn add_function(&mut self, function: ScalarUDF) {
        self.functions.insert(function.name().to_lowercase(), Arc::new(function));
    }

    /// A function added with [`Catalog::add_function`]; names of functions are not case sensitive.
    pub fn function(&self, name: &str) -> Option<&Arc<ScalarUDF>> {
        self.functions.get(&name.to_lowercase())
    }

    /// Makes an aggregate function available to queries, in place of any other of the same name.
    pub fn add_aggregate(&mut self, function: AggregateUDF) {
        self.aggregates.insert(function.name().to_lowercase(), Arc::new(function));
    }

    /// A function added with [`Catalog::add_aggregate`]; names of functions are not case sensitive.
    pub fn aggregate(&self, name: &str) -> Option<&Arc<AggregateUDF>> {
        self.aggregates.get(&name.to_lowercase())
    }

    /// Makes a table function available to queries, in place of any other of the same name.
    pub fn add_table_function(&mut self, function: TableFunctionHandle) {
        self.table_functions.insert(function.0.name().to_lowercase(), function);
    }

    /// A function added with [`Catalog::add_table_function`]; names of functions are not case sensitive.
    pub fn table_function(&self, name: &str) -> Option<&TableFunctionHandle> {
        self.table_functions.get(&name.to_lowercase())
    }

    /// All functions added with [`Catalog::add_table_function`], by name.
    pub fn table_functions(&self) -> impl Iterator<Item = &TableFunctionHandle> {
        self.table_functions.values()
    }

    /// All functions added with [`Catalog::add_aggregate`], by name.
    pub fn aggregates(&self) -> impl Iterator<Item = &Arc<AggregateUDF>> {
        self.aggregates.values()
    }

    /// All functions added with [`Catalog::add_function`], by name.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<ScalarUDF>> {
        self.functions.values()
    }

    /// Sets a setting; what keys and values mean is checked where they are used.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.settings.insert(key.into(), value.into());
    }

    /// Forgets one setting, or all.
    pub fn reset(&mut self, key: Option<&str>) {
        match key {
            Some(key) => drop(self.settings.remove(key)),
            None => self.settings.clear(),
        }
    }

    /// The value of a setting, where it was set.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// All settings that were set, by key.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Statement, parse};

    fn file(path: usize) -> Table {
        let text = format!("CREATE TABLE `'{path}'` (a INT) WITH ('connector' = 'x')");
        let Statement::CreateTable(definition) = parse(&text).unwrap().remove(0).statement else { panic!("a table") };
        let schema = definition.physical_schema().as_ref().clone();
        Table::new(definition, schema, true).unwrap()
    }

    #[test]
    fn files_of_old_statements_are_forgotten_unless_views_read_them() {
        let mut catalog = Catalog::default();
        let text = "CREATE VIEW v AS SELECT * FROM '1', TABLE(TUMBLE(TABLE '2', DESCRIPTOR(a), INTERVAL '1' SECOND))";
        let Statement::CreateView(view) = parse(text).unwrap().remove(0).statement else { panic!("a view") };
        for path in 0..3 * FILES_MAX {
            catalog.add_file(file(path));
            if path == 2 {
                catalog.add_view(view.clone()).unwrap();
            }
            assert!(catalog.get(&format!("'{path}'")).is_some() && catalog.files.len() <= FILES_MAX);
        }
        let is_known = |path: usize| catalog.get(&format!("'{path}'")).is_some();
        assert!(is_known(1) && is_known(2) && !is_known(0) && !is_known(3), "{}", catalog.files.len());
        assert!((3 * FILES_MAX - FILES_MAX / 2..3 * FILES_MAX).all(is_known));
    }
}

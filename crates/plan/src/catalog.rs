//! Names and what they stand for: tables, views, functions, settings.
//!
//! An engine has a catalogue of permanent names, and each of its sessions one of temporary names, the tables of files and its settings. A statement is planned
//! against the session's laid over the engine's ([`Catalog::over`]). Copies share what they hold, so that both are cheap however many names there are.
//!
//! Names are case sensitive, as in Flink, quoted or not; an unknown name gets a hint at the one that was probably meant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_expr::{AggregateUDF, ScalarUDF};
use pelton_data::column::sql_name;
use pelton_data::table_function::TableFunctionHandle;

use crate::errors::{Place, PlanError, closest};
use crate::parse::{
    ColumnDefinition, ColumnKind, Dropped, Named, RelationKind, TableDefinition, ViewDefinition, check_columns,
};
use crate::types::SqlType;

/// The table, of any engine, that has the rows which came too late for its queries.
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
    /// The rows themselves, in the columns that are stored, where the program has registered them; else the table's connector reads them.
    pub rows: Option<Arc<[RecordBatch]>>,
}

/// What a name of the catalogue stands for.
#[derive(Debug, Clone, Copy)]
pub enum Relation<'a> {
    /// A table.
    Table(&'a Table),
    /// A view.
    View(&'a ViewDefinition),
}

/// A view that reads something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependent {
    /// Its name.
    pub view: String,
    /// Whether it is a session's.
    pub is_temporary: bool,
}

/// Tables, views, functions and settings. A copy shares them until one of both is changed.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The engine's, below those of a session.
    base: Option<Arc<Catalog>>,
    tables: Names<Arc<Table>>,
    system_tables: Names<Table>,
    /// Those that stand for files, each with the number of files that had been added with it.
    files: Names<(u64, Arc<Table>)>,
    files_added: u64,
    views: Names<Arc<ViewDefinition>>,
    functions: Names<Arc<ScalarUDF>>,
    aggregates: Names<Arc<AggregateUDF>>,
    table_functions: Names<TableFunctionHandle>,
    settings: Names<String>,
}

/// Values by their names, copied when a shared map is changed.
type Names<T> = Arc<BTreeMap<String, T>>;

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
        Ok(Table { definition, physical: Arc::new(delivered), bounded, rows: None })
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
    /// The empty catalogue of a session of the engine whose catalogue this is.
    pub fn of_session(&self) -> Catalog {
        Catalog { system_tables: self.system_tables.clone(), ..Catalog::default() }
    }

    /// This catalogue of a session laid over its engine's: a temporary name hides a permanent one.
    pub fn over(&self, base: Arc<Catalog>) -> Catalog {
        assert!(base.base.is_none(), "an engine's catalogue lies over no other");
        Catalog { base: Some(base), ..self.clone() }
    }

    /// Adds a table. An existing one of the same name is an error, or stays with `IF NOT EXISTS`.
    pub fn add_table(&mut self, table: Table) -> Result<(), PlanError> {
        let definition = &table.definition;
        if self.is_free(&definition.name, definition.place, definition.if_not_exists)? {
            Arc::make_mut(&mut self.tables).insert(table.definition.name.clone(), Arc::new(table));
        }
        Ok(())
    }

    /// Adds a table of the engine's own, which is read as others are, and not listed among them.
    pub fn add_system_table(&mut self, table: Table) {
        Arc::make_mut(&mut self.system_tables).insert(table.definition.name.clone(), table);
    }

    /// Adds the table that stands for a file, in place of the one that did before. Each statement adds its own, so those that were added long ago are
    /// forgotten, unless a view reads them.
    pub fn add_file(&mut self, table: Arc<Table>) {
        self.files_added += 1;
        let files = Arc::make_mut(&mut self.files);
        files.insert(table.definition.name.clone(), (self.files_added, table));
        if files.len() > FILES_MAX {
            let recent = self.files_added - FILES_MAX as u64 / 2;
            let read: BTreeSet<&String> = self.views.values().flat_map(|view| &view.reads).collect();
            files.retain(|name, (number, _)| *number > recent || read.contains(name));
        }
    }

    /// The table that stands for a file.
    pub fn file(&self, name: &str) -> Option<&Arc<Table>> {
        self.files.get(name).map(|(_, table)| table)
    }

    /// Adds a view. An existing one of the same name is an error, or stays with `IF NOT EXISTS`.
    pub fn add_view(&mut self, view: ViewDefinition) -> Result<(), PlanError> {
        if self.is_free(&view.name, view.place, view.if_not_exists)? {
            Arc::make_mut(&mut self.views).insert(view.name.clone(), Arc::new(view));
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

    /// Checks that `DROP` names a table or view that there is; `false` where there is none and `IF EXISTS` allows that. A temporary one is dropped with `TEMPORARY`,
    /// and a permanent one without, as in Flink.
    pub fn check_dropped(&self, dropped: &Dropped) -> Result<bool, PlanError> {
        let Dropped { target, kind, is_temporary, if_exists, .. } = dropped;
        let name = &target.name;
        let refused = |message: String, hint: String| Err(PlanError::invalid(target.place, message).with_hint(hint));
        let relation = match self.get(name) {
            Some(relation) => relation,
            None if *if_exists => return Ok(false),
            None => return Err(self.unknown(target)),
        };
        let found = match relation {
            Relation::Table(_) => RelationKind::Table,
            Relation::View(_) => RelationKind::View,
        };
        if self.system_tables.contains_key(name) || self.base.iter().any(|base| base.system_tables.contains_key(name)) {
            return refused(format!("{name} is a table of the engine itself"), "it cannot be dropped".to_owned());
        }
        let is_own = self.is_temporary(name);
        if found != *kind {
            let temporary = if is_own { "TEMPORARY " } else { "" };
            return refused(
                format!("{name} is a {}", found.name()),
                format!("use DROP {temporary}{}", found.keyword()),
            );
        }
        match (is_own, is_temporary) {
            (true, false) => refused(
                format!("the {} {name} is temporary", kind.name()),
                format!("use DROP TEMPORARY {}", kind.keyword()),
            ),
            (false, true) if *if_exists => Ok(false),
            (false, true) => {
                refused(format!("the {} {name} is not temporary", kind.name()), format!("use DROP {}", kind.keyword()))
            }
            _ => Ok(true),
        }
    }

    /// The views that read a table or view, by themselves or through others. Those of other sessions are not known.
    pub fn dependents(&self, name: &str) -> Vec<Dependent> {
        let mut found = vec![Dependent { view: name.to_owned(), is_temporary: self.is_temporary(name) }];
        let mut next = 0;
        while let Some(read) = found.get(next).cloned() {
            next += 1;
            for layer in self.layers() {
                let is_temporary = layer.base.is_some();
                // A name stands for what is temporary first, but in a permanent view.
                let reads_it = |name: &String| {
                    *name == read.view && read.is_temporary == (is_temporary && self.is_temporary(name))
                };
                for (view, _) in layer.views.iter().filter(|(_, view)| view.reads.iter().any(reads_it)) {
                    let dependent = Dependent { view: view.clone(), is_temporary };
                    if !found.contains(&dependent) {
                        found.push(dependent);
                    }
                }
            }
        }
        found.split_off(1)
    }

    /// Forgets a table or view of this catalogue.
    pub fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.tables).remove(name);
        Arc::make_mut(&mut self.views).remove(name);
    }

    /// What `name` stands for.
    pub fn get(&self, name: &str) -> Option<Relation<'_>> {
        let table = self.tables.get(name).map(|table| Relation::Table(table));
        let table = table.or_else(|| self.views.get(name).map(|view| Relation::View(view)));
        let table = table.or_else(|| self.files.get(name).map(|(_, table)| Relation::Table(table)));
        let table = table.or_else(|| self.base.as_ref()?.get(name));
        table.or_else(|| self.system_tables.get(name).map(Relation::Table))
    }

    /// The names of this catalogue's own tables and views.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().chain(self.views.keys()).map(String::as_str)
    }

    /// Whether a name is that of a session's temporary table or view.
    pub fn is_temporary(&self, name: &str) -> bool {
        self.base.is_some() && (self.tables.contains_key(name) || self.views.contains_key(name))
    }

    /// Whether the table `name` of an earlier version of the catalogue was neither dropped nor replaced since. Only tables that `CREATE TABLE` or the
    /// program made can be.
    pub fn has_still(&self, name: &str, earlier: &Catalog) -> bool {
        let Some(table) = earlier.declared(name) else { return true };
        self.declared(name).is_some_and(|now| Arc::ptr_eq(now, table))
    }

    /// A table that stands for no file, and is not the engine's own.
    pub fn declared(&self, name: &str) -> Option<&Arc<Table>> {
        let is_hidden = self.views.contains_key(name);
        self.tables.get(name).or_else(|| self.base.as_ref().filter(|_| !is_hidden)?.tables.get(name))
    }

    /// What `name` stands for, or an error that suggests the name that was probably meant.
    pub fn resolve(&self, named: &Named) -> Result<Relation<'_>, PlanError> {
        self.get(&named.name).ok_or_else(|| self.unknown(named))
    }

    /// The error for a name that stands for nothing.
    pub fn unknown(&self, named: &Named) -> PlanError {
        let error = PlanError::invalid(named.place, format!("there is no table or view {}", named.name));
        let names = self.layers().flat_map(|layer| layer.tables.keys().chain(layer.views.keys()));
        let names = names.chain(self.layers().flat_map(|layer| layer.system_tables.keys())).map(String::as_str);
        match closest(&named.name, names) {
            Some(name) => error.with_hint(format!("did you mean {name}? (names are case sensitive)")),
            None => error.with_hint("SHOW TABLES lists what there is"),
        }
    }

    /// This catalogue, and the one that it lies over.
    fn layers(&self) -> impl Iterator<Item = &Catalog> {
        std::iter::once(self).chain(self.base.as_deref())
    }

    /// Whether a name of the catalogue below stands for something else here.
    fn hides(&self, layer: &Catalog, name: &str) -> bool {
        !std::ptr::eq(self, layer) && self.is_temporary(name)
    }

    /// All tables that `CREATE TABLE` or the program made.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        let visible = move |layer| move |(name, _): &(&String, _)| !self.hides(layer, name);
        self.layers().flat_map(move |layer| layer.tables.iter().filter(visible(layer))).map(|(_, table)| table.as_ref())
    }

    /// All views.
    pub fn views(&self) -> impl Iterator<Item = &ViewDefinition> {
        let visible = move |layer| move |(name, _): &(&String, _)| !self.hides(layer, name);
        self.layers().flat_map(move |layer| layer.views.iter().filter(visible(layer))).map(|(_, view)| view.as_ref())
    }

    /// Makes a scalar function available to queries, in place of any other of the same name.
    pub fn add_function(&mut self, function: ScalarUDF) {
        Arc::make_mut(&mut self.functions).insert(function.name().to_lowercase(), Arc::new(function));
    }

    /// A function added with [`Catalog::add_function`]; names of functions are not case sensitive.
    pub fn function(&self, name: &str) -> Option<&Arc<ScalarUDF>> {
        let name = name.to_lowercase();
        self.layers().find_map(|layer| layer.functions.get(&name))
    }

    /// Makes an aggregate function available to queries, in place of any other of the same name.
    pub fn add_aggregate(&mut self, function: AggregateUDF) {
        Arc::make_mut(&mut self.aggregates).insert(function.name().to_lowercase(), Arc::new(function));
    }

    /// A function added with [`Catalog::add_aggregate`]; names of functions are not case sensitive.
    pub fn aggregate(&self, name: &str) -> Option<&Arc<AggregateUDF>> {
        let name = name.to_lowercase();
        self.layers().find_map(|layer| layer.aggregates.get(&name))
    }

    /// Makes a table function available to queries, in place of any other of the same name.
    pub fn add_table_function(&mut self, function: TableFunctionHandle) {
        Arc::make_mut(&mut self.table_functions).insert(function.0.name().to_lowercase(), function);
    }

    /// A function added with [`Catalog::add_table_function`]; names of functions are not case sensitive.
    pub fn table_function(&self, name: &str) -> Option<&TableFunctionHandle> {
        let name = name.to_lowercase();
        self.layers().find_map(|layer| layer.table_functions.get(&name))
    }

    /// All functions added with [`Catalog::add_table_function`], by name.
    pub fn table_functions(&self) -> impl Iterator<Item = &TableFunctionHandle> {
        self.layers().flat_map(|layer| layer.table_functions.values())
    }

    /// All functions added with [`Catalog::add_aggregate`], by name.
    pub fn aggregates(&self) -> impl Iterator<Item = &Arc<AggregateUDF>> {
        self.layers().flat_map(|layer| layer.aggregates.values())
    }

    /// All functions added with [`Catalog::add_function`], by name.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<ScalarUDF>> {
        self.layers().flat_map(|layer| layer.functions.values())
    }

    /// Sets a setting; what keys and values mean is checked where they are used.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        Arc::make_mut(&mut self.settings).insert(key.into(), value.into());
    }

    /// Forgets one setting, or all.
    pub fn reset(&mut self, key: Option<&str>) {
        let settings = Arc::make_mut(&mut self.settings);
        match key {
            Some(key) => drop(settings.remove(key)),
            None => settings.clear(),
        }
    }

    /// The value of a setting, where it was set.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.layers().find_map(|layer| layer.settings.get(key)).map(String::as_str)
    }

    /// All settings that were set. Those of an engine are others than those of a session.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.layers().flat_map(|layer| layer.settings.iter()).map(|(key, value)| (key.as_str(), value.as_str()))
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
        let text = "CREATE VIEW v AS SELECT a FROM '1' UNION ALL SELECT `'0'` FROM (SELECT a AS `'0'` FROM '2')";
        let Statement::CreateView(view) = parse(text).unwrap().remove(0).statement else { panic!("a view") };
        for path in 0..3 * FILES_MAX {
            catalog.add_file(Arc::new(file(path)));
            if path == 2 {
                let reads = crate::query::check_view(&catalog, &view).unwrap();
                catalog.add_view(ViewDefinition { reads, ..view.clone() }).unwrap();
            }
            assert!(catalog.get(&format!("'{path}'")).is_some() && catalog.files.len() <= FILES_MAX);
        }
        let is_known = |path: usize| catalog.get(&format!("'{path}'")).is_some();
        assert!(is_known(1) && is_known(2) && !is_known(0) && !is_known(3), "{}", catalog.files.len());
        assert!((3 * FILES_MAX - FILES_MAX / 2..3 * FILES_MAX).all(is_known));
    }

    fn named(name: &str) -> Table {
        let mut table = file(0);
        table.definition.name = name.to_owned();
        table
    }

    fn view(name: &str, reads: &[&str]) -> ViewDefinition {
        let text = format!("CREATE VIEW {name} AS SELECT 1 AS a");
        let Statement::CreateView(view) = parse(&text).unwrap().remove(0).statement else { panic!("a view") };
        ViewDefinition { reads: reads.iter().map(|&name| name.to_owned()).collect(), ..view }
    }

    #[test]
    fn dependents_are_found_through_views() {
        let mut permanent = Catalog::default();
        permanent.add_table(named("t")).unwrap();
        for (name, reads) in [("a", &["t"]), ("b", &["a"]), ("c", &["other"])] {
            permanent.add_view(view(name, reads)).unwrap();
        }
        let mut temporary = permanent.of_session();
        // It hides the permanent view of this name, which reads the table all the same.
        temporary.add_view(view("a", &["c"])).unwrap();
        temporary.add_view(view("d", &["a", "b"])).unwrap();
        let catalog = temporary.over(Arc::new(permanent));
        let dependents = |name: &str| {
            let text =
                |dependent: Dependent| format!("{}{}", dependent.view, if dependent.is_temporary { "*" } else { "" });
            catalog.dependents(name).into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!((dependents("t"), dependents("b")), (vec!["a".into(), "b".into(), "d*".into()], vec!["d*".into()]));
        assert_eq!((dependents("c"), dependents("a")), (vec!["a*".into(), "d*".into()], vec!["d*".to_owned()]));
    }

    #[test]
    fn temporary_names_hide_permanent_ones() {
        let mut permanent = Catalog::default();
        permanent.add_table(named("a")).unwrap();
        permanent.add_table(named("b")).unwrap();
        permanent.set("engine", "1");
        let mut temporary = permanent.of_session();
        temporary.add_table(named("b")).unwrap();
        temporary.add_table(named("c")).unwrap();
        temporary.set("session", "2");
        let earlier = temporary.over(Arc::new(permanent.clone()));
        assert_eq!(earlier.tables().map(|table| table.definition.name.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
        assert_eq!((earlier.setting("engine"), earlier.setting("session")), (Some("1"), Some("2")));
        permanent.remove("b");
        let now = temporary.over(Arc::new(permanent.clone()));
        assert!(now.has_still("b", &earlier), "the permanent table of this name was hidden");
        temporary.remove("b");
        let now = temporary.over(Arc::new(permanent));
        assert!(now.get("b").is_none() && !now.has_still("b", &earlier) && now.has_still("a", &earlier));
    }
}

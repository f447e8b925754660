//! Queries that aggregate one table by the same keys: its rows are added up once for all of them.
//!
//! A query that is the only one of its kind reads rows. From the second one on, those that are added read partial results (see
//! [`pelton_runtime::exchange::Summarizer`]): of their group, which has a slot for each predicate and each value that one of them needs. Slots are used again when
//! queries leave. What is computed for a group cannot fail: a query whose predicate may reads rows.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion_physical_expr::PhysicalExpr;
use pelton_compiler::CompileError;
use pelton_plan::partial_results::{self, PartialResults, PartialValue};
use pelton_plan::pipeline::Window;
use pelton_runtime::exchange::{ColumnFunction, Group, Member, Summarizer, Sums};
use pelton_runtime::pool::Pool;
use pelton_state::window::Contents;

use crate::error::Error;
use crate::settings::{AdaptChoice, Settings};
use crate::{lookups, tier};

/// Slices of a group may be so many times as short as those of one of its windows: a chunk of rows has few in any case.
const FINER_MAX: i64 = 64;

/// The groups of the queries that aggregate one table. Clones are the same ones.
#[derive(Clone, Default)]
pub(crate) struct SharedAggregations(Arc<Mutex<Vec<Alike>>>);

/// How a query reads a table that others may aggregate by the same keys.
#[derive(Clone)]
pub(crate) struct Sharing {
    /// What it needs of partial results.
    pub results: Arc<PartialResults>,
    /// Whether it reads these. Else it reads rows, and others may share with those that come behind it.
    pub is_member: bool,
}

/// What the code of a group is made with.
pub(crate) struct Making<'a> {
    pub table: &'a str,
    /// The columns of the table.
    pub schema: &'a Schema,
    pub settings: &'a Settings,
    pub pool: &'a Pool,
}

/// Queries by the same keys.
struct Alike {
    results: Arc<PartialResults>,
    /// How many run, those that read rows among them.
    running: usize,
    groups: Vec<OpenGroup>,
}

/// A group with members.
struct OpenGroup {
    group: Arc<Group>,
    keys: Vec<Arc<ColumnFunction>>,
    predicates: Slots<Predicate>,
    values: Slots<PartialValue>,
    /// Values that partial results have: at least those of the slots.
    summed: Vec<(PartialValue, Arc<ColumnFunction>)>,
    sums: Arc<Sums>,
    /// One for each member.
    windows: Vec<Window>,
}

/// Which rows count for a query.
struct Predicate(Arc<dyn PhysicalExpr>);

/// Things that several members need, each computed once. Places stay the same as long as one needs them, and are used again then.
struct Slots<T>(Vec<Option<Slot<T>>>);

struct Slot<T> {
    thing: T,
    compute: Arc<ColumnFunction>,
    members: usize,
}

/// Takes a query out of its group when it is dropped.
struct Lease {
    aggregations: SharedAggregations,
    results: Arc<PartialResults>,
    member: Option<(Arc<Group>, Window, usize, Vec<usize>)>,
}

impl SharedAggregations {
    /// Whether a query runs that aggregates the table by the same keys.
    pub fn has_alike(&self, results: &PartialResults) -> bool {
        self.alike().iter().any(|alike| alike.results.are_alike(results))
    }

    /// Adds a query, which stays until the lease is dropped; and what it takes of its group, where it reads partial results.
    ///
    /// # Errors
    /// Where something cannot be computed.
    pub fn add(&self, sharing: &Sharing, making: &Making<'_>) -> Result<(Option<Member>, Box<dyn Any + Send>), Error> {
        let mut all = self.alike();
        let results = sharing.results.clone();
        let found = all.iter().position(|alike| alike.results.are_alike(&results));
        let found = found.unwrap_or_else(|| {
            all.push(Alike { results: results.clone(), running: 0, groups: Vec::new() });
            all.len() - 1
        });
        let alike = &mut all[found];
        let member = if sharing.is_member { Some(alike.add_member(&results, making)?) } else { None };
        alike.running += 1;
        let leaving = member
            .as_ref()
            .map(|Member { group, predicate, values }| (group.clone(), results.window, *predicate, values.clone()));
        let lease = Lease { aggregations: self.clone(), results, member: leaving };
        Ok((member, Box::new(lease)))
    }

    fn alike(&self) -> MutexGuard<'_, Vec<Alike>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut all = self.aggregations.alike();
        let Some(found) = all.iter().position(|alike| alike.results.are_alike(&self.results)) else { return };
        let alike = &mut all[found];
        alike.running -= 1;
        if let Some((group, window, predicate, values)) = self.member.take() {
            alike.remove_member(&group, window, predicate, &values);
        }
        if alike.running == 0 {
            all.remove(found);
        }
    }
}

impl Alike {
    fn add_member(&mut self, results: &PartialResults, making: &Making<'_>) -> Result<Member, Error> {
        let has_grid = |open: &OpenGroup| open.grid_with(Some(results.window)).is_some();
        let found = match self.groups.iter().position(has_grid) {
            Some(found) => found,
            None => {
                self.groups.push(OpenGroup::new(results, making)?);
                self.groups.len() - 1
            }
        };
        let member = self.groups[found].add(results, making);
        if self.groups[found].windows.is_empty() {
            self.groups.remove(found);
        }
        member
    }

    fn remove_member(&mut self, group: &Arc<Group>, window: Window, predicate: usize, values: &[usize]) {
        let Some(found) = self.groups.iter().position(|open| Arc::ptr_eq(&open.group, group)) else { return };
        let open = &mut self.groups[found];
        open.predicates.remove(predicate);
        values.iter().for_each(|&value| open.values.remove(value));
        let position = open.windows.iter().position(|other| *other == window);
        open.windows.swap_remove(position.expect("each member has its window"));
        if open.windows.is_empty() {
            self.groups.remove(found);
        } else {
            open.publish(&self.results);
        }
    }
}

impl OpenGroup {
    /// A group without members, which adds up nothing yet.
    fn new(results: &PartialResults, making: &Making<'_>) -> Result<OpenGroup, Error> {
        let key = |(key, field): &(Arc<dyn PhysicalExpr>, FieldRef)| compute(key, field.data_type(), making);
        let keys = results.keys.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let sums = sums(results, &[], making)?;
        Ok(OpenGroup {
            group: Arc::new(Group::new(Summarizer {
                schema: partial_results::schema(&results.keys, &[]),
                keys: keys.clone(),
                predicates: Vec::new(),
                values: Vec::new(),
                slots: Vec::new(),
                delay: results.delay,
                grid: results.window,
                sums: sums.clone(),
            })),
            keys,
            predicates: Slots(Vec::new()),
            values: Slots(Vec::new()),
            summed: Vec::new(),
            sums,
            windows: Vec::new(),
        })
    }

    fn add(&mut self, results: &PartialResults, making: &Making<'_>) -> Result<Member, Error> {
        let predicate = Predicate(results.predicate.clone());
        let computed = compute(&predicate.0, &DataType::Boolean, making)?;
        let values = results.values.iter().map(|value| {
            let computed = compute(&value.of_row, value.field.data_type(), making)?;
            Ok((value.clone(), computed))
        });
        let values = values.collect::<Result<Vec<_>, CompileError>>()?;
        let is_new = |(value, _): &(PartialValue, _)| !self.summed.iter().any(|(known, _)| known == value);
        if values.iter().any(is_new) {
            let used = self.values.0.iter().flatten().map(|slot| (slot.thing.clone(), slot.compute.clone()));
            let mut summed: Vec<_> = used.collect();
            for value in &values {
                if !summed.iter().any(|(known, _)| *known == value.0) {
                    summed.push(value.clone());
                }
            }
            let things: Vec<PartialValue> = summed.iter().map(|(value, _)| value.clone()).collect();
            (self.sums, self.summed) = (sums(results, &things, making)?, summed);
        }
        let predicate = self.predicates.add(predicate, computed);
        let values = values.into_iter().map(|(value, computed)| self.values.add(value, computed)).collect();
        self.windows.push(results.window);
        self.publish(results);
        Ok(Member { group: self.group.clone(), predicate, values })
    }

    /// The windows whose slices are cut wherever one of the members' begins or ends, and one of another; `None` where these would be too short.
    fn grid_with(&self, other: Option<Window>) -> Option<Window> {
        let mut windows = self.windows.clone();
        windows.extend(other);
        windows.dedup();
        Window::finer_grid(&windows, FINER_MAX)
    }

    /// Has chunks that are read from now on added up for those who are members now.
    fn publish(&self, results: &PartialResults) {
        let place = |slot: &Option<Slot<PartialValue>>| {
            let slot = slot.as_ref()?;
            self.summed.iter().position(|(value, _)| *value == slot.thing)
        };
        let things: Vec<PartialValue> = self.summed.iter().map(|(value, _)| value.clone()).collect();
        self.group.replace(Summarizer {
            schema: partial_results::schema(&results.keys, &things),
            keys: self.keys.clone(),
            predicates: self.predicates.0.iter().map(|slot| slot.as_ref().map(|slot| slot.compute.clone())).collect(),
            values: self.summed.iter().map(|(_, compute)| compute.clone()).collect(),
            slots: self.values.0.iter().map(place).collect(),
            delay: results.delay,
            grid: self.grid_with(None).expect("members have windows that share slices"),
            sums: self.sums.clone(),
        });
    }
}

impl<T: PartialEq> Slots<T> {
    /// The place of a thing for one more member.
    fn add(&mut self, thing: T, compute: Arc<ColumnFunction>) -> usize {
        let known = self.0.iter().position(|slot| slot.as_ref().is_some_and(|slot| slot.thing == thing));
        if let Some(known) = known {
            self.0[known].as_mut().expect("it was just found").members += 1;
            return known;
        }
        let slot = Some(Slot { thing, compute, members: 1 });
        match self.0.iter().position(Option::is_none) {
            Some(free) => {
                self.0[free] = slot;
                free
            }
            None => {
                self.0.push(slot);
                self.0.len() - 1
            }
        }
    }

    fn remove(&mut self, place: usize) {
        let slot = self.0[place].as_mut().expect("a member has its slots until it leaves");
        slot.members -= 1;
        if slot.members == 0 {
            self.0[place] = None;
        }
        while let Some(None) = self.0.last() {
            self.0.pop();
        }
    }
}

impl PartialEq for Predicate {
    fn eq(&self, other: &Predicate) -> bool {
        self.0.as_ref() == other.0.as_ref()
    }
}

fn compute(
    expression: &Arc<dyn PhysicalExpr>,
    data_type: &DataType,
    making: &Making<'_>,
) -> Result<Arc<ColumnFunction>, CompileError> {
    let column = pelton_compiler::column(expression, making.schema, data_type)?;
    Ok(Arc::new(move |rows: usize, of: &dyn Fn(usize) -> ArrayRef| column.compute(rows, of)))
}

/// Code that adds partial results with these values up.
fn sums(results: &PartialResults, values: &[PartialValue], making: &Making<'_>) -> Result<Arc<Sums>, Error> {
    let schema = partial_results::schema(&results.keys, values);
    let program = Arc::new(partial_results::sums(making.table, &schema, results.keys.len(), values));
    let settings = Settings { adapt: AdaptChoice::Off, ..making.settings.clone() };
    let kernels = tier::kernels(&program, &lookups::none(), &settings, making.pool)?;
    let kernel = kernels.into_iter().next().expect("the program has one pipeline");
    let window = program.groups(0).clone();
    let layout = pelton_compiler::entry_layout(&window).with_dense_keys(making.settings.dense_keys(0));
    let read_out = move |contents: Contents<'_>| match contents {
        Contents::Groups(groups) => pelton_compiler::read_out(&window, groups),
        Contents::Rows(_) => unreachable!("rows are added up"),
    };
    Ok(Arc::new(Sums::new(kernel, layout, Box::new(read_out))))
}

//! The first rows of windows that are those of each key, sessions among them: which rows a window has is known when its key's rows say so, so rows are kept
//! with their group, as arrays that stand side by side, and numbered when the window leaves.

use datafusion_common::Result;
use datafusion_expr::Expr;
use pelton_data::column::sql_name;
use pelton_data::ranking::Ranking;

use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::coerce::held_types::held_type;
use crate::coerce::simplify::simplify;
use crate::errors::{Place, PlanError, external};
use crate::lower::aggregate::{Group, different_windows, key_fields};
use crate::lower::over::Collector;
use crate::lower::scope::{WINDOW, column};
use crate::lower::unbound::{Cut, Relation};
use crate::lower::{Lowering, accumulate};
use crate::pipeline::{Window, WindowAggregate, WindowColumn};

/// What each branch's rows are grouped by.
pub(crate) type Groups = Vec<Vec<Expr>>;

impl Lowering<'_> {
    /// What rows are grouped by that are cut into windows of each key, where some are: the bounds, and the keys in the order of `partition`.
    ///
    /// # Errors
    /// Where they are numbered by less than that, or the parts of a UNION ALL have keys that are not the same.
    pub(crate) fn groups_by_key(
        &self,
        input: &Relation,
        partition: &Groups,
        place: Option<Place>,
    ) -> Result<Option<Groups>> {
        let refused = |construct: String, hint: &str| Err(external(PlanError::unsupported(place, construct, hint)));
        let cuts = input.branches.iter().filter_map(|branch| branch.cut.as_ref());
        let by_key: Vec<(&Cut, &str)> = cuts.filter_map(|cut| Some((cut, cut.by_key()?))).collect();
        let Some(&(cut, windows)) = by_key.first() else { return Ok(None) };
        if by_key.len() < input.branches.len() {
            return Err(external(different_windows(place, "UNION ALL")));
        }
        if cut.window.counts_rows() && input.branches.len() > 1 {
            let construct = format!("numbering the rows of a UNION ALL of {windows}");
            return refused(construct, "number those of each part by themselves");
        }
        let is_constant = |key: &Expr| matches!(key, Expr::Literal(..));
        let mut keys = Vec::new();
        for ((branch, partition), (cut, _)) in input.branches.iter().zip(partition).zip(&by_key) {
            let own = cut.keys.iter().map(|key| simplify(key.clone(), &branch.scope)).collect::<Result<Vec<_>>>()?;
            if !own.iter().all(|key| is_constant(key) || partition.contains(key)) {
                let hint = "PARTITION BY window_start, window_end and the columns of the window's PARTITION BY";
                return refused(format!("numbering the rows of {windows} by less than they are partitioned by"), hint);
            }
            keys.push(own);
        }
        // A group is the same in all parts where the same of these expressions are its keys; a constant may be one of any.
        let is_key = |place: &usize| partition.iter().zip(&keys).any(|(all, keys)| keys.contains(&all[*place]));
        let places: Vec<usize> = (0..partition[0].len()).filter(is_key).collect();
        let has_all = |(all, keys): (&Vec<Expr>, &Vec<Expr>)| {
            places.iter().all(|&place| is_constant(&all[place]) || keys.contains(&all[place]))
        };
        if !partition.iter().zip(&keys).all(has_all) {
            let hint = "give the windows of all parts the same PARTITION BY";
            return refused(format!("numbering the rows of a UNION ALL of {windows} by different keys"), hint);
        }
        let groups = partition.iter().map(|all| {
            let bounds = WINDOW_COLUMNS[..2].iter().map(|name| column(WINDOW, name));
            bounds.chain(places.iter().map(|&place| all[place].clone())).collect()
        });
        Ok(Some(groups.collect()))
    }

    /// Lets a window keep rows with their groups: gives it keys, accumulators, and what the columns of its rows are read from, and ends the branches in it.
    pub(crate) fn collect_rows(
        &mut self,
        (number, place): (usize, Option<Place>),
        window: &mut WindowAggregate,
        ranking: &Ranking,
        collector: Collector,
        groups: &[Vec<Group>],
    ) -> Result<()> {
        let Collector { branches, columns, .. } = collector;
        let keys_of = |branch: usize| groups[branch].iter().filter_map(Group::as_key);
        let names: Vec<String> = (0..keys_of(0).count()).map(|key| format!("key{key}")).collect();
        window.keys = key_fields(&branches, groups, names.iter().map(String::as_str))?;
        let mut accumulated = accumulate::Collector::new(branches, &window.window, false);
        for (index, (field, values)) in ranking.schema.fields().iter().zip(columns).enumerate() {
            if ranking.arrival == Some(index) {
                // Rows stand in their group as they came.
                window.collected.push(WindowColumn::Rank);
                continue;
            }
            if held_type(field.data_type()).is_none() {
                let windows =
                    accumulated.branches[0].cut.as_ref().and_then(Cut::by_key).expect("they are those of each key");
                let construct = format!(
                    "numbering the rows of {windows} that have a column of type {}",
                    sql_name(field.data_type())
                );
                let hint = format!("leave {} out", field.name());
                return Err(external(PlanError::unsupported(place, construct, hint)));
            }
            // The zeros of a key are one.
            let is_exact = !field.data_type().is_floating();
            let is_key = |key: &usize| (0..values.len()).all(|branch| keys_of(branch).nth(*key) == values.get(branch));
            let key = (0..window.keys.len()).find(|key| is_exact && is_key(key));
            window.collected.push(match key {
                Some(key) => WindowColumn::Key(key),
                None => self.array_of(&mut accumulated, values)?,
            });
        }
        window.session_slots = self.session_slots(window.window, &mut accumulated)?;
        window.accumulators = accumulated.accumulators.clone();
        self.feed_groups(number, accumulated, groups)
    }

    /// Refuses to number results of windows that count the rows of each key, as [`Lowering::window_of_rows`] does to group them.
    pub(crate) fn check_results(&self, input: &Relation, bounds: Window, place: Option<Place>) -> Result<()> {
        if !matches!(bounds, Window::RowsByKey { .. }) || input.branches.iter().all(|branch| branch.cut.is_some()) {
            return Ok(());
        }
        let construct = "numbering the results of windows that count the rows of each key";
        let hint = "number the rows of these windows, or count their results by themselves";
        Err(external(PlanError::unsupported(place, construct, hint)))
    }
}

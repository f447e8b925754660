//! Leaves out what nobody reads of a join of two streams.

use std::collections::BTreeSet;

use pelton_data::join::{JoinColumn, Side, WindowBound};

use super::{is_cut_again, kept_columns, projected};
use crate::lower::unbound::{UnboundProgram, UnboundTarget};
use crate::pipeline::{Operator, StreamJoin, StreamRef};

/// Leaves out columns of what leaves, and then columns of both sides' rows.
pub(super) fn prune_join(unbound: &mut UnboundProgram, number: usize) {
    let stream = StreamRef::Operator(number);
    let schema = unbound.operators[number].schema().expect("it has results").clone();
    let is_cut_again = is_cut_again(unbound, stream);
    let Operator::Join(join) = &unbound.operators[number] else { unreachable!("it is a join") };
    let is_time = |index: usize| join.spec.columns[index] == JoinColumn::Window(WindowBound::Time, None);
    let kept = kept_columns(unbound, stream, &schema, |index| is_cut_again && is_time(index));
    let Operator::Join(join) = &mut unbound.operators[number] else { unreachable!("it is a join") };
    join.choose(&kept, projected(&schema, &kept));
    let left_ports = join.left_ports;
    let kept = Side::BOTH.map(|side| prune_side(join, side));
    let feeding = unbound.pipelines.iter_mut().filter_map(|pipeline| match &mut pipeline.target {
        UnboundTarget::Rows { operator, columns, .. } if *operator == number => Some(columns),
        _ => None,
    });
    for (port, columns) in feeding.enumerate() {
        let kept = &kept[usize::from(port >= left_ports)];
        *columns = kept.iter().map(|column| columns[*column].clone()).collect();
    }
}

/// Leaves out columns of a side's rows. Returns those that are kept.
fn prune_side(join: &mut StreamJoin, side: Side) -> Vec<usize> {
    let StreamJoin { spec, residual, .. } = join;
    let rows = &mut spec.sides[side.port()];
    let mut kept: BTreeSet<usize> = rows.keys.iter().copied().chain(rows.time.map(|time| time.index)).collect();
    let of_residual = residual.iter().flat_map(|residual| &residual.columns);
    kept.extend(of_residual.filter(|(of, _)| *of == side).map(|(_, column)| *column));
    kept.extend(spec.columns.iter().filter_map(|column| match column {
        JoinColumn::Of(of, column) if *of == side => Some(*column),
        _ => None,
    }));
    let kept: Vec<usize> = kept.into_iter().collect();
    let place = |column: usize| kept.binary_search(&column).expect("used columns are kept");
    rows.schema = projected(&rows.schema, &kept);
    rows.keys.iter_mut().for_each(|key| *key = place(*key));
    rows.time.iter_mut().for_each(|time| time.index = place(time.index));
    let of_residual = residual.iter_mut().flat_map(|residual| &mut residual.columns);
    of_residual.filter(|(of, _)| *of == side).for_each(|(_, column)| *column = place(*column));
    for column in &mut spec.columns {
        if let JoinColumn::Of(of, column) = column
            && *of == side
        {
            *column = place(*column);
        }
    }
    kept
}

//! Six functions by a key over tumbling windows (Grizzly, figure 8): states side by side in an array, for keys from 0 on.

use std::mem::take;

use pelton_data::{Block, Micros};

use super::{each_window, integers};

/// What is computed of the values of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// SUM
    Sum,
    /// COUNT
    Count,
    /// AVG
    Mean,
    /// STDDEV_POP
    Deviation,
    /// MEDIAN
    Median,
    /// MODE
    Mode,
}

impl Function {
    /// The function of this name.
    pub fn named(name: &str) -> Option<Function> {
        use Function::{Count, Deviation, Mean, Median, Mode, Sum};
        let all = [
            ("sum", Sum),
            ("count", Count),
            ("mean", Mean),
            ("deviation", Deviation),
            ("median", Median),
            ("mode", Mode),
        ];
        all.into_iter().find(|(known, _)| *known == name).map(|(_, function)| function)
    }
}

/// The start of a window, and the value of each key.
pub type Window = (Micros, Vec<f64>);

/// Values of `function` of the integers `value` by the integer `key`, which is less than `keys`, over windows of rows in order of time.
/// Keys without rows have the value of no rows, whatever that is.
pub fn by_key(
    blocks: &[Block],
    (key, value): (usize, usize),
    keys: usize,
    window: Micros,
    function: Function,
) -> Vec<Window> {
    let input = Input { blocks, key, value, keys, window };
    match function {
        Function::Sum => input.states(|sum: &mut i64, value| *sum += value, |sum| take(sum) as f64),
        Function::Count => input.states(|count: &mut u64, _| *count += 1, |count| take(count) as f64),
        Function::Mean => input.states(
            |(sum, count): &mut (i64, u64), value| {
                *sum += value;
                *count += 1;
            },
            |state| {
                let (sum, count) = take(state);
                sum as f64 / count as f64
            },
        ),
        Function::Deviation => input.states(
            |(sum, squares, count): &mut (i64, i64, i64), value| {
                *sum += value;
                *squares += value * value;
                *count += 1;
            },
            |state| {
                let (sum, squares, count) = take(state);
                let mean = sum as f64 / count as f64;
                (squares as f64 / count as f64 - mean * mean).max(0.0).sqrt()
            },
        ),
        Function::Median => input.states(Vec::push, |values| emptied(values, median)),
        Function::Mode => input.states(Vec::push, |values| emptied(values, mode)),
    }
}

/// What the function makes of the values, which keep their memory for those of the next window.
fn emptied(values: &mut Vec<i64>, function: fn(&mut [i64]) -> f64) -> f64 {
    let result = function(values);
    values.clear();
    result
}

/// Rows, and how they are grouped.
struct Input<'a> {
    blocks: &'a [Block],
    key: usize,
    value: usize,
    keys: usize,
    window: Micros,
}

impl Input<'_> {
    /// `finish` gives the value of a state, and leaves that of no rows.
    fn states<S: Clone + Default>(
        &self,
        add: impl Fn(&mut S, i64),
        mut finish: impl FnMut(&mut S) -> f64,
    ) -> Vec<Window> {
        let mut closed = Vec::new();
        each_window(
            (self.blocks, self.window),
            |block| (integers(block, self.key), integers(block, self.value)),
            &mut vec![S::default(); self.keys],
            |states, (keys, values), rows| {
                for (key, value) in keys[rows.clone()].iter().zip(&values[rows]) {
                    add(&mut states[*key as usize], *value);
                }
            },
            |states, start| closed.push((start, states.iter_mut().map(&mut finish).collect())),
        );
        closed
    }
}

fn median(values: &mut [i64]) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let (_, &mut low, above) = values.select_nth_unstable(last / 2);
    let high = if last % 2 == 0 { low } else { above.iter().copied().min().unwrap_or(low) };
    (low + high) as f64 / 2.0
}

fn mode(values: &mut [i64]) -> f64 {
    values.sort_unstable();
    let longest = values
        .chunk_by(|left, right| left == right)
        .reduce(|best, run| if run.len() > best.len() { run } else { best });
    longest.map_or(f64::NAN, |run| run[0] as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::block_of;
    use super::*;

    #[test]
    fn functions_have_the_values_of_their_definitions() {
        let rows: Vec<(i64, i64, i64)> = (0..5_000).map(|row| (row, row * 7 % 13, row * row % 101)).collect();
        let block = block_of(&rows);
        let mut groups: BTreeMap<(i64, i64), Vec<f64>> = BTreeMap::new();
        rows.iter().for_each(|(ts, key, value)| groups.entry((ts / 1_000, *key)).or_default().push(*value as f64));
        type Definition = fn(&[f64]) -> f64;
        let definitions: [(&str, Definition); 6] = [
            ("sum", |values| values.iter().sum()),
            ("count", |values| values.len() as f64),
            ("mean", |values| values.iter().sum::<f64>() / values.len() as f64),
            ("deviation", |values| {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
            }),
            ("median", |values| (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0),
            ("mode", |values| {
                let count = |value: f64| values.iter().filter(|other| **other == value).count();
                let most = values.iter().map(|value| count(*value)).max().unwrap();
                values.iter().copied().find(|value| count(*value) == most).unwrap()
            }),
        ];
        for (name, value) in definitions {
            let found = by_key(std::slice::from_ref(&block), (1, 2), 13, 1_000_000, Function::named(name).unwrap());
            assert_eq!(found.len(), 5);
            for (window, (start, values)) in found.iter().enumerate() {
                assert_eq!(*start, window as i64 * 1_000_000);
                for (key, found) in values.iter().enumerate() {
                    let mut group = groups[&(window as i64, key as i64)].clone();
                    group.sort_by(f64::total_cmp);
                    assert!((found - value(&group)).abs() < 1e-9, "{name} of {key} is {found}, not {}", value(&group));
                }
            }
        }
        assert_eq!(Function::named("none"), None);
    }
}

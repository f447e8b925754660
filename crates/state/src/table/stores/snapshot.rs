//! What stores keep of groups, in snapshots: how many values each group has, and then all of them.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use super::{Chosen, Store, Table, value_type};
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::table::sketch::Sketch;

impl Table {
    /// Writes what the accumulator `slot` keeps of some groups.
    pub(in crate::table) fn write_store(
        &self,
        slot: usize,
        entries: Chosen<'_>,
        out: &mut Writer,
    ) -> Result<(), SnapshotError> {
        let groups = self.value_groups(slot);
        match groups.store() {
            Store::Lists(lists) => {
                let (offsets, values) = lists.gather(&groups.numbers(entries));
                write_lengths(&offsets, out);
                out.array(&values)
            }
            Store::Set(set) => {
                let (offsets, held) = groups.listed(set, entries);
                write_lengths(&offsets, out);
                out.array(&set.value_array(&held))?;
                out.column(&set.notes(&held));
                Ok(())
            }
            Store::Sketches(sketches) => {
                let sketch = |number: Option<u32>| number.map(|number| &sketches[number as usize]);
                groups.numbers(entries).into_iter().for_each(|number| Sketch::write_to(sketch(number), out));
                Ok(())
            }
            Store::Udaf(own) => own.write_to(&groups.numbers(entries), out),
        }
    }

    /// Reads what it keeps of groups that it keeps nothing of.
    pub(in crate::table) fn read_store(
        &mut self,
        slot: usize,
        entries: &[u32],
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let data_type = match self.store(slot) {
            Store::Lists(lists) => lists.data_type().clone(),
            Store::Set(_) => value_type(&self.layout.accumulators()[slot].accumulator).clone(),
            Store::Sketches(_) => return self.read_sketches(slot, entries, input),
            Store::Udaf(_) => return self.read_udaf(slot, entries, input),
        };
        let (numbers, values) = self.read_numbered(slot, &data_type, entries, input)?;
        match self.store(slot) {
            Store::Lists(lists) => lists.append(numbers.into_iter().enumerate(), &values),
            Store::Set(set) => set.read(&numbers, &values, input)?,
            Store::Sketches(_) | Store::Udaf(_) => unreachable!("they have no values"),
        }
        Ok(())
    }

    /// Reads values, and the number of the group of each.
    fn read_numbered(
        &mut self,
        slot: usize,
        data_type: &DataType,
        entries: &[u32],
        input: &mut Reader<'_>,
    ) -> Result<(Vec<u32>, ArrayRef), SnapshotError> {
        let lengths = input.column::<u64>(entries.len(), "numbers of values")?;
        let total = lengths.iter().try_fold(0_u64, |total, &length| total.checked_add(length));
        let total = total.and_then(|total| usize::try_from(total).ok());
        input.check(total.is_some(), "fewer values")?;
        let values = input.array(data_type, total.unwrap_or(0), "values of groups")?;
        input.check(values.null_count() == 0, "values that are not NULL")?;
        let numbers = self.numbers_of(slot, entries, |at| lengths[at] > 0);
        let numbered = numbers.into_iter().zip(&*lengths);
        Ok((numbered.flat_map(|(number, &length)| std::iter::repeat_n(number, length as usize)).collect(), values))
    }

    fn read_sketches(&mut self, slot: usize, entries: &[u32], input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let read = entries.iter().map(|_| Sketch::read_from(input)).collect::<Result<Vec<_>, _>>()?;
        let numbers = self.numbers_of(slot, entries, |at| read[at].is_some());
        let Store::Sketches(sketches) = self.store(slot) else { unreachable!("just asked for") };
        for (number, sketch) in numbers.into_iter().zip(read) {
            if let Some(sketch) = sketch {
                sketches[number as usize] = sketch;
            }
        }
        Ok(())
    }

    fn read_udaf(&mut self, slot: usize, entries: &[u32], input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let known = input.column::<u8>(entries.len(), "whether groups are known")?;
        let numbers = self.numbers_of(slot, entries, |at| known[at] > 0);
        let numbers: Vec<u32> =
            numbers.into_iter().zip(&*known).filter(|(_, known)| **known > 0).map(|(number, _)| number).collect();
        let rows = value_type(&self.layout.accumulators()[slot].accumulator).clone();
        let Store::Udaf(own) = self.store(slot) else { unreachable!("just asked for") };
        own.read_from(&numbers, &rows, input)
    }
}

fn write_lengths(offsets: &[usize], out: &mut Writer) {
    let lengths: Vec<u64> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u64).collect();
    out.column(&lengths);
}

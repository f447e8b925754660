//! Table functions of a program's own, so that scripts have some.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, StringArray, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type};
use pelton::Session;
use pelton::function::OutputRows;

/// Registers the functions of this module.
pub fn register(session: &Session) {
    let word = vec![Field::new("word", DataType::Utf8View, false), Field::new("letters", DataType::Int32, false)];
    session.register_table_function("own_words", vec![DataType::Utf8View], word, words);
    let pair = vec![Field::new("number", DataType::Int64, true), Field::new("name", DataType::Utf8, true)];
    let arguments = vec![DataType::Int64, DataType::Utf8View];
    session.register_table_function("own_countdown", arguments, pair, countdown);
    let seasons = vec![Field::new("season", DataType::Utf8View, false)];
    session.register_table_function("own_seasons", Vec::new(), seasons, |_| {
        let seasons = StringViewArray::from(vec!["dry", "wet"]);
        Ok(OutputRows { input_rows: vec![0, 0], columns: vec![Arc::new(seasons)] })
    });
    let wrong = vec![Field::new("value", DataType::Int64, false)];
    session.register_table_function("own_wrong", vec![DataType::Int64], wrong, wrongly);
}

/// `OWN_WORDS(text)`: the words of a text, and how many letters each has.
fn words(arguments: &[ArrayRef]) -> Result<OutputRows, String> {
    let texts = arguments[0].as_string_view().iter().zip(0..);
    let words = texts.flat_map(|(text, row)| text.unwrap_or("").split_whitespace().map(move |word| (row, word)));
    let (input_rows, words): (Vec<u32>, Vec<&str>) = words.unzip();
    let letters = words.iter().map(|word| word.chars().count() as i32);
    let columns: Vec<ArrayRef> =
        vec![Arc::new(StringViewArray::from(words.clone())), Arc::new(Int32Array::from_iter_values(letters))];
    Ok(OutputRows { input_rows, columns })
}

/// `OWN_COUNTDOWN(from, name)`: the numbers from one down to 1, then NULL, each with a name. Refuses what is negative.
fn countdown(arguments: &[ArrayRef]) -> Result<OutputRows, String> {
    let (from, names) = (arguments[0].as_primitive::<Int64Type>(), arguments[1].as_string_view());
    let (mut input_rows, mut numbers, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for row in (0..from.len()).filter(|&row| from.is_valid(row)) {
        if from.value(row) < 0 {
            return Err(format!("{} is negative", from.value(row)));
        }
        for number in (0..=from.value(row)).rev() {
            input_rows.push(row as u32);
            numbers.push((number > 0).then_some(number));
            named.push(names.is_valid(row).then(|| format!("{} {number}", names.value(row))));
        }
    }
    Ok(OutputRows {
        input_rows,
        columns: vec![Arc::new(Int64Array::from(numbers)), Arc::new(StringArray::from(named))],
    })
}

/// `OWN_WRONG(how)`: does what a function must not do, in a way for each number.
fn wrongly(arguments: &[ArrayRef]) -> Result<OutputRows, String> {
    let values = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let of_first = |columns: Vec<ArrayRef>| Ok(OutputRows { input_rows: vec![0], columns });
    match arguments[0].as_primitive::<Int64Type>().value(0) {
        1 => of_first(Vec::new()),
        2 => of_first(vec![values(vec![1, 2])]),
        3 => of_first(vec![Arc::new(Int32Array::from(vec![1]))]),
        4 => of_first(vec![Arc::new(Int64Array::from(vec![None]))]),
        5 => Ok(OutputRows { input_rows: vec![7], columns: vec![values(vec![1])] }),
        6 => panic!("of what it got"),
        _ => of_first(vec![values(vec![1])]),
    }
}

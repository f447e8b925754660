//! The hand-written loops by name, and the blocks they read, which are those that the engine replays.

use std::hint::black_box;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use arrow::datatypes::Schema;
use pelton_connectors::TableRequest;
use pelton_data::{BLOCK_ROWS_DEFAULT, Block, Micros, TimeColumn};
use pelton_plan::parse::{Statement, TableDefinition};
use pelton_runtime::source::{Decoded, Read, Rows, Source};

use super::BenchError;
use super::file::Case;
use crate::reference::over_values::{HashMapDistinct, SortedArrayMedian, SortedArrayPercentiles};
use crate::reference::sliding::{
    self, FlatFat, KeptColumns, KeptRows, Minimum, SlickDeque, SlideSide, SlideSideSum, Sliding, SubtractOnEvict, Sum,
    TwoStacks,
};
use crate::reference::sliding_many::{Each, FlatFatMany, RunningSums, SlickDequeMany, SlidingMany};
use crate::reference::{count, functions, hop, hop_groups, integers, nexmark, over, places, session, sums, ysb};

pub mod joins;

/// What the windows of the benchmarks are long, where the loop does not get it from elsewhere.
const TEN_SECONDS: Micros = 10_000_000;
const MINUTE: Micros = 60_000_000;

/// Rows that a loop goes over in one call, so that what a call costs once does not count.
pub const CALL_ROWS: usize = 50_000_000;

/// A table's rows as the engine would replay them.
pub struct Input {
    /// One pass over the table.
    pub blocks: Vec<Block>,
    names: Vec<String>,
}

impl Input {
    /// Reads all of a table that `setup` defines.
    ///
    /// # Errors
    /// Where there is no such table, or it cannot be read.
    pub fn load(setup: &str, table: &str) -> Result<Input, BenchError> {
        let definition = definition(setup, table)?;
        let columns = (0..definition.physical_schema().fields().len()).collect();
        Input::load_columns(&definition, columns)
    }

    /// Reads some columns of all of a table.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub(super) fn load_columns(definition: &TableDefinition, columns: Vec<usize>) -> Result<Input, BenchError> {
        let schema = definition.physical_schema();
        let names: Vec<String> = columns.iter().map(|&column| schema.field(column).name().clone()).collect();
        let event_time = definition.watermark.as_ref().and_then(|watermark| {
            let index = names.iter().position(|name| *name == watermark.column)?;
            TimeColumn::new(index, schema.field(columns[index]).data_type())
        });
        let mut options = definition.options.clone();
        options.insert("replay".into(), "memory".into());
        options.insert("replay.passes".into(), "1".into());
        options.remove("replay.duration");
        let request = TableRequest {
            name: definition.name.clone(),
            columns,
            metadata: Default::default(),
            partition_keys: Vec::new(),
            lengths: Default::default(),
            options,
            event_time,
            block_rows: BLOCK_ROWS_DEFAULT,
            seed: 0,
            strict_values: false,
            host: Default::default(),
            schema,
        };
        let source = pelton_connectors::open_source(&request).map_err(|error| BenchError::Input(error.to_string()))?;
        Ok(Input { blocks: blocks(source, event_time)?, names })
    }

    /// Rows of one pass.
    pub fn rows(&self) -> usize {
        self.blocks.iter().map(Block::rows).sum()
    }

    /// The place of a column.
    ///
    /// # Panics
    /// Where the table has no such column: the benchmark names it, and its loop knows it.
    pub fn column(&self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| panic!("the table has no column '{name}'"))
    }

    /// So many passes, as [`Input::repeated`], that a call has that many rows.
    pub fn passes(&self, call_rows: usize) -> Vec<Block> {
        self.repeated(self.repetitions(call_rows))
    }

    /// How many passes have that many rows.
    pub fn repetitions(&self, call_rows: usize) -> usize {
        call_rows.div_ceil(self.rows().max(1))
    }

    /// So many passes, each later in event time, as a replay has them.
    pub fn repeated(&self, passes: usize) -> Vec<Block> {
        let times = self.blocks.iter().filter_map(Block::time_range);
        let (min, max) =
            times.fold((Micros::MAX, Micros::MIN), |(min, max), range| (min.min(range.min), max.max(range.max)));
        let tick = self.blocks.first().and_then(Block::time_column).map_or(1, |column| column.micros_per_tick);
        let later = if min <= max { max - min + tick } else { 0 };
        let pass = |pass: usize| self.blocks.iter().map(move |block| block.clone().shifted(later * pass as i64));
        (0..passes).flat_map(pass).collect()
    }
}

fn blocks(mut source: Box<dyn Source>, event_time: Option<TimeColumn>) -> Result<Vec<Block>, BenchError> {
    let failed = |error: String| BenchError::Input(error);
    let mut blocks = Vec::new();
    for partition in 0..source.partitions() {
        loop {
            let Decoded { rows, .. } = match source.read(partition).map_err(|error| failed(error.to_string()))? {
                Read::Chunk(chunk) => chunk().map_err(|error| failed(error.to_string()))?,
                Read::Wait(time) => {
                    std::thread::sleep(time);
                    continue;
                }
                Read::End => break,
            };
            let block = |batch| Block::new(batch, event_time).map_err(|error| failed(error.to_string()));
            match rows {
                Rows::Blocks(kept) => blocks.extend(kept),
                Rows::Batches(batches) => {
                    blocks.extend(batches.into_iter().map(block).collect::<Result<Vec<_>, _>>()?);
                }
            }
        }
    }
    Ok(blocks)
}

/// The file that a table reads, and its columns.
///
/// # Errors
/// Where there is no such table, or it reads no file.
pub fn file_of(setup: &str, table: &str) -> Result<(PathBuf, Schema), BenchError> {
    let definition = definition(setup, table)?;
    let path = definition.options.get("path");
    let path = path.ok_or_else(|| BenchError::Input(format!("table '{table}' has no 'path'")))?;
    Ok((path.into(), definition.physical_schema().as_ref().clone()))
}

pub(super) fn definition(setup: &str, table: &str) -> Result<TableDefinition, BenchError> {
    let statements = pelton_plan::parse(setup).map_err(|error| BenchError::Input(error.to_string()))?;
    let definitions = statements.into_iter().filter_map(|parsed| match parsed.statement {
        Statement::CreateTable(definition) => Some(definition),
        _ => None,
    });
    let found = definitions.into_iter().find(|definition| definition.name == table);
    found.ok_or_else(|| BenchError::Input(format!("the benchmark defines no table '{table}'")))
}

/// A loop that is ready to go over blocks.
pub type EachLoop = Box<dyn Fn(&[Block]) + Sync>;

/// The same for a loop that has so many threads itself.
pub type TogetherLoop = Box<dyn Fn(&[Block], usize) + Sync>;

/// How several threads run a loop.
pub enum Loop {
    /// Each goes over a share of its own.
    Each(EachLoop),
    /// It has so many threads itself.
    Together(TogetherLoop),
}

/// The loop of this name for a case.
///
/// # Errors
/// Where there is no such loop, or what it looks up cannot be read.
pub fn named(name: &str, case: &Case, setup: &str, input: &Input) -> Result<Loop, BenchError> {
    if let Some(sharing) = name.strip_prefix("places-") {
        return by_places(sharing, case, input);
    }
    if name == "session-sums" {
        return Ok(Loop::Each(sessions(case, input)?));
    }
    if name.starts_with("many-") {
        return Ok(Loop::Each(over_rows_many(name, input.column("v"), case.frames())?));
    }
    Ok(Loop::Each(each_named(name, case, setup, input)?))
}

/// The loop of this name that each thread runs over its own share.
fn each_named(name: &str, case: &Case, setup: &str, input: &Input) -> Result<EachLoop, BenchError> {
    let parameter = |name: &str| {
        case.number(name).ok_or_else(|| BenchError::Input(format!("case {} has no number '{name}'", case.name)))
    };
    let column = |name: &str| input.column(name);
    Ok(match name {
        "ysb-sums" | "ysb-rows" => {
            let columns = ysb::SumColumns {
                event_type: column("event_type"),
                campaign: column("campaign_id"),
                value: column("value"),
            };
            let campaigns = 0..parameter("campaigns")? as i64;
            match name {
                "ysb-rows" => counting(columns, campaigns, parameter("size")? as u64),
                _ => {
                    Box::new(move |blocks| drop(black_box(ysb::sums(blocks, columns, campaigns.clone(), TEN_SECONDS))))
                }
            }
        }
        "ysb-counts" => {
            let columns =
                ysb::CountColumns { event_type: column("event_type"), ad: column("ad_id"), time: column("event_time") };
            let (ads, campaign_of) = campaigns(&Input::load(setup, "ad")?);
            Box::new(move |blocks| {
                drop(black_box(ysb::counts(blocks, columns, ads.clone(), &campaign_of, TEN_SECONDS)))
            })
        }
        "nexmark-q1" => {
            let price = column("price");
            Box::new(move |blocks| {
                for block in blocks {
                    let mut euros = Vec::with_capacity(block.rows());
                    nexmark::q1(block, price, &mut euros);
                    black_box(euros);
                }
            })
        }
        "nexmark-q2" => {
            let (auction, price) = (column("auction"), column("price"));
            Box::new(move |blocks| {
                let (mut auctions, mut prices) = (Vec::new(), Vec::new());
                for block in blocks {
                    nexmark::q2(block, auction, price, &mut auctions, &mut prices);
                    black_box((&auctions, &prices));
                }
            })
        }
        "sums-by-integer" | "sums-by-string" => {
            let (key, value, groups) = (column("k"), column("v"), parameter("keys")?);
            sums_by_key(name, (key, value), groups)
        }
        "functions-by-key" => {
            let (columns, keys) = ((column("k"), column("v")), parameter("keys")?);
            let function = case.parameters.get("function").map(String::as_str).and_then(functions::Function::named);
            let function = function.ok_or_else(|| BenchError::Input(format!("case {} has no function", case.name)))?;
            Box::new(move |blocks| drop(black_box(functions::by_key(blocks, columns, keys, TEN_SECONDS, function))))
        }
        name if name.starts_with("hop-") => hopping(name, case, input)?,
        name if ["over-", "sum-", "min-"].iter().any(|kind| name.starts_with(kind)) => {
            over_rows(name, column("v"), parameter("window")?)?
        }
        other => return Err(BenchError::Input(format!("there is no reference loop '{other}'"))),
    })
}

/// The loop over sums by keys that are places, by which threads share what.
fn by_places(sharing: &str, case: &Case, input: &Input) -> Result<Loop, BenchError> {
    use places::Sharing;
    let known = [
        ("each", Sharing::Each),
        ("asked", Sharing::Asked),
        ("shared", Sharing::Shared),
        ("shared-asked", Sharing::SharedAsked),
        ("hot-apart", Sharing::HotApart),
        ("partitioned", Sharing::Partitioned),
    ];
    let found = known.into_iter().find(|(name, _)| *name == sharing);
    let unknown = || BenchError::Input(format!("there is no reference loop 'places-{sharing}'"));
    let (_, sharing) = found.ok_or_else(unknown)?;
    let keys = case.number("keys");
    let keys = keys.ok_or_else(|| BenchError::Input(format!("case {} has no number 'keys'", case.name)))?;
    let columns = (input.column("k"), input.column("v"));
    Ok(Loop::Together(Box::new(move |blocks, workers| {
        drop(black_box(places::sums(blocks, columns, keys, TEN_SECONDS, workers, sharing)));
    })))
}

/// The loop over sums by integers or strings.
fn sums_by_key(name: &str, columns: (usize, usize), groups: usize) -> EachLoop {
    match name {
        "sums-by-integer" => with_kept(
            move || sums::IntegerSums::new(groups),
            move |sums, blocks| {
                sums.sum(blocks, columns, MINUTE, |start, sums| {
                    black_box((start, sums));
                });
            },
        ),
        _ => with_kept(
            move || sums::StringSums::new(groups),
            move |sums, blocks| {
                sums.sum(blocks, columns, MINUTE, |start, sums, bytes| {
                    black_box((start, sums, bytes));
                });
            },
        ),
    }
}

/// A loop whose calls find the memory that those before had: fresh memory costs more than what is done with it.
fn with_kept<T: Send + 'static>(
    new: impl Fn() -> T + Sync + 'static,
    run: impl Fn(&mut T, &[Block]) + Sync + 'static,
) -> EachLoop {
    let kept = Mutex::new(Vec::new());
    Box::new(move |blocks| {
        let before = kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut state = before.unwrap_or_else(&new);
        run(&mut state, blocks);
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(state);
    })
}

/// The loop over windows that count rows.
fn counting(columns: ysb::SumColumns, campaigns: Range<i64>, size: u64) -> EachLoop {
    Box::new(move |blocks| {
        // As many results as a block has rows are written before they are taken.
        let mut results = Vec::with_capacity(BLOCK_ROWS_DEFAULT);
        count::sums(blocks, columns, campaigns.clone(), size, |campaign, sum| {
            results.push((campaign, sum));
            if results.len() == BLOCK_ROWS_DEFAULT {
                black_box(&results);
                results.clear();
            }
        });
        black_box(&results);
    })
}

/// The loop over sessions.
fn sessions(case: &Case, input: &Input) -> Result<EachLoop, BenchError> {
    let parameter = |name: &str| {
        case.number(name).ok_or_else(|| BenchError::Input(format!("case {} has no number '{name}'", case.name)))
    };
    let (columns, keys) = ((input.column("k"), input.column("v")), parameter("keys")?);
    let gap = parameter("gap_ms")? as Micros * 1_000;
    Ok(Box::new(move |blocks| {
        session::sums(blocks, columns, keys, gap, |over| {
            black_box(over);
        });
    }))
}

/// The loop of this name over hopping windows.
fn hopping(name: &str, case: &Case, input: &Input) -> Result<EachLoop, BenchError> {
    let parameter = |name: &str| {
        case.number(name).ok_or_else(|| BenchError::Input(format!("case {} has no number '{name}'", case.name)))
    };
    let lengths = hop::Lengths { slide: parameter("slide_ms")? as Micros * 1_000, slides: parameter("windows")? };
    let column = |name: &str| input.column(name);
    Ok(match name {
        "hop-sums" => {
            let value = column("v");
            Box::new(move |blocks| {
                hop::sums(blocks, value, lengths, |windows| {
                    black_box(windows);
                });
            })
        }
        "hop-averages" => {
            let value = column("v");
            Box::new(move |blocks| {
                hop::averages(blocks, value, lengths, |windows| {
                    black_box(windows);
                });
            })
        }
        "hop-sums-by-key" => {
            let columns = (column("k"), column("v"));
            Box::new(move |blocks| {
                hop::sums_by_key(blocks, columns, lengths, |windows| {
                    black_box(windows);
                });
            })
        }
        "hop-averages-by-group" => {
            let (keys, value) = (keys(case, input)?, column("v"));
            let filter = case.number("event_type").map(|wanted| (column("event_type"), wanted as i64));
            let below = case.number("below").map_or(f64::INFINITY, |below| below as f64);
            Box::new(move |blocks| {
                hop_groups::averages(blocks, (&keys, value), filter, below, lengths, |rows| {
                    black_box(rows);
                });
            })
        }
        "hop-counts-by-group" => {
            let keys = keys(case, input)?;
            Box::new(move |blocks| {
                hop_groups::counts(blocks, &keys, lengths, |rows| {
                    black_box(rows);
                });
            })
        }
        other => return Err(BenchError::Input(format!("there is no reference loop '{other}'"))),
    })
}

/// The keys that a case lists as `keys=COLUMN:KEYS,COLUMN/DIVISOR:KEYS`.
fn keys(case: &Case, input: &Input) -> Result<Vec<hop_groups::Key>, BenchError> {
    let text = case.parameters.get("keys").map_or("", String::as_str);
    let key = |text: &str| {
        let (column, keys) = text.split_once(':')?;
        let (column, divisor) = column.split_once('/').unwrap_or((column, "1"));
        Some(hop_groups::Key { column: input.column(column), divisor: divisor.parse().ok()?, keys: keys.parse().ok()? })
    };
    let keys = text.split(',').map(key).collect::<Option<Vec<_>>>();
    keys.ok_or_else(|| {
        BenchError::Input(format!("case {} has no list keys=COLUMN/DIVISOR:KEYS,… but '{text}'", case.name))
    })
}

/// The loop of this name over each row and those before it, `rows` in all.
fn over_rows(name: &str, value: usize, rows: usize) -> Result<EachLoop, BenchError> {
    fn slide<S: sliding::Sliding>(value: usize, rows: usize) -> EachLoop {
        Box::new(move |blocks| {
            over::slide::<S>(blocks, value, rows, |results| {
                black_box(results);
            });
        })
    }
    fn averages<S: sliding::Sliding>(value: usize, rows: usize) -> EachLoop {
        Box::new(move |blocks| {
            over::averages::<S>(blocks, value, rows, |averages| {
                black_box(averages);
            });
        })
    }
    Ok(match name {
        "over-averages" => averages::<SubtractOnEvict>(value, rows),
        "over-averages-kept-rows" => averages::<KeptRows>(value, rows),
        "over-averages-kept-columns" => averages::<KeptColumns>(value, rows),
        "over-medians" => slide::<SortedArrayMedian>(value, rows),
        "over-percentiles" => slide::<SortedArrayPercentiles>(value, rows),
        "over-distinct-counts" => slide::<HashMapDistinct>(value, rows),
        "sum-subtract-on-evict" => slide::<SubtractOnEvict>(value, rows),
        "sum-two-stacks" => slide::<TwoStacks<Sum>>(value, rows),
        "sum-slide-side" => slide::<SlideSideSum>(value, rows),
        "sum-flat-fat" => slide::<FlatFat<Sum>>(value, rows),
        "min-two-stacks" => slide::<TwoStacks<Minimum>>(value, rows),
        "min-slick-deque" => slide::<SlickDeque>(value, rows),
        "min-slide-side" => slide::<SlideSide<Minimum>>(value, rows),
        "min-flat-fat" => slide::<FlatFat<Minimum>>(value, rows),
        other => return Err(BenchError::Input(format!("there is no reference loop '{other}'"))),
    })
}

/// The algorithm of this name over each row and those before it, for windows of so many rows each; `None` where it is none of the literature's.
pub fn sliding_many(name: &str, rows: &[usize]) -> Option<Box<dyn SlidingMany>> {
    fn each<S: Sliding + 'static>(rows: &[usize]) -> Box<dyn SlidingMany> {
        Box::new(Each::new(rows, |rows| Box::new(S::new(rows))))
    }
    Some(match name {
        "sum-subtract-on-evict" | "many-sum-subtract-on-evict" => each::<SubtractOnEvict>(rows),
        "sum-two-stacks" | "many-sum-two-stacks" => each::<TwoStacks<Sum>>(rows),
        "sum-slide-side" => each::<SlideSideSum>(rows),
        "sum-flat-fat" => each::<FlatFat<Sum>>(rows),
        "min-two-stacks" | "many-min-two-stacks" => each::<TwoStacks<Minimum>>(rows),
        "min-slick-deque" => each::<SlickDeque>(rows),
        "min-slide-side" | "many-min-slide-side" => each::<SlideSide<Minimum>>(rows),
        "min-flat-fat" => each::<FlatFat<Minimum>>(rows),
        "many-sum-slide-side" => Box::new(RunningSums::new(rows)),
        "many-sum-flat-fat" => Box::new(FlatFatMany::<Sum>::new(rows)),
        "many-min-slick-deque" => Box::new(SlickDequeMany::new(rows)),
        "many-min-flat-fat" => Box::new(FlatFatMany::<Minimum>::new(rows)),
        _ => return None,
    })
}

/// The loop of this name over each row and those before it, for several windows.
fn over_rows_many(name: &str, value: usize, rows: Vec<usize>) -> Result<EachLoop, BenchError> {
    if sliding_many(name, &rows[..1]).is_none() {
        return Err(BenchError::Input(format!("there is no reference loop '{name}'")));
    }
    let name = name.to_string();
    Ok(Box::new(move |blocks| {
        let mut sliding = sliding_many(&name, &rows).expect("there was one before");
        over::slide_many(blocks, value, (&mut *sliding, rows.len()), |results| {
            black_box(results);
        });
    }))
}

/// The range of the advertisements, and each one's campaign.
fn campaigns(ads: &Input) -> (std::ops::Range<i64>, Vec<i64>) {
    let (ad, campaign) = (ads.column("ad_id"), ads.column("campaign_id"));
    let mut pairs: Vec<(i64, i64)> = Vec::new();
    for block in &ads.blocks {
        pairs.extend(integers(block, ad).iter().copied().zip(integers(block, campaign).iter().copied()));
    }
    pairs.sort_unstable();
    let first = pairs.first().map_or(0, |(ad, _)| *ad);
    (first..first + pairs.len() as i64, pairs.into_iter().map(|(_, campaign)| campaign).collect())
}

#[cfg(test)]
mod tests {
    use pelton_data::block::ticks;

    use super::*;

    const SETUP: &str = "
        CREATE TABLE event (ad_id BIGINT NOT NULL, event_type TINYINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
            WATERMARK FOR event_time AS event_time)
        WITH ('connector' = 'ysb', 'variant' = 'lightsaber', 'rows' = '40000', 'rows-per-second' = '1000000', 'pace' = 'flat-out', 'replay.duration' = '1 s', 'replay' = 'memory');
        CREATE TABLE ad (ad_id BIGINT NOT NULL, campaign_id BIGINT NOT NULL)
        WITH ('connector' = 'ysb', 'variant' = 'lightsaber', 'table' = 'ads');";

    #[test]
    fn loops_read_what_the_engine_replays() {
        let input = Input::load(SETUP, "event").unwrap();
        assert_eq!(input.rows(), 40_000);
        let times: Vec<i64> = input.blocks.iter().flat_map(|block| ticks(&block.column(2)).values().to_vec()).collect();
        assert!(times.is_sorted());
        let passes = input.passes(CALL_ROWS);
        assert!(passes.len() >= CALL_ROWS / 40_000 * input.blocks.len());
        assert!(passes.windows(2).all(|pair| pair[0].time_range().unwrap().max <= pair[1].time_range().unwrap().min));
        let (ads, campaign_of) = campaigns(&Input::load(SETUP, "ad").unwrap());
        assert_eq!((ads.end - ads.start) as usize, campaign_of.len());
        let case = Case { name: "small".into(), parameters: Default::default() };
        let Loop::Each(run) = named("ysb-counts", &case, SETUP, &input).unwrap() else { panic!("it has no threads") };
        run(&input.blocks);
        assert!(named("none", &case, SETUP, &input).is_err());
    }
}

//! The strings of Nexmark: few distinct ones made once, and long ones cut from a pool, so that no row makes a string.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, StringViewArray, UInt32Array};
use arrow::compute::take;
use pelton_data::column::TextPool;

use crate::random::{Draw, Stream};

/// Bytes in a pool: with the block's views it stays within an L2 cache.
const POOL_BYTES: u32 = 1 << 20;

/// Average size of a record at most: strings are then cut from less than a third of the pool.
pub(super) const RECORD_BYTES_MAX: u64 = 1 << 18;

/// One character in this many is special: a blank, or `_` in addresses.
const SPECIAL_ONE_IN: u32 = 13;

/// Channels besides the hot ones.
pub(super) const CHANNELS: u32 = 10_000;

/// Channels that get half of the bids.
pub(super) const CHANNELS_HOT: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];

const FIRST_NAMES: [&str; 11] =
    ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"];

const LAST_NAMES: [&str; 9] = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"];

const CITIES: [&str; 10] =
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"];

const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];

/// Distinct strings, of which columns are made by number.
#[derive(Debug)]
pub(super) struct Words {
    words: ArrayRef,
    lengths: Vec<u32>,
}

impl Words {
    fn new<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Words {
        let words = StringViewArray::from_iter_values(words);
        Words { lengths: words.lengths().collect(), words: Arc::new(words) }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.lengths.len() as u32
    }

    /// Bytes of one.
    pub(super) fn length(&self, word: u32) -> u32 {
        self.lengths[word as usize]
    }

    /// A column of the words with these numbers.
    pub(super) fn column(&self, numbers: impl Iterator<Item = u32>) -> ArrayRef {
        take(&self.words, &UInt32Array::from_iter_values(numbers), None).expect("words are numbered from zero")
    }
}

/// All strings, each made when first wanted.
#[derive(Debug)]
pub(super) struct Text {
    seed: u64,
    letters: OnceLock<TextPool>,
    prose: OnceLock<TextPool>,
    channels: OnceLock<Words>,
    addresses: OnceLock<Words>,
    /// First and last name.
    pub(super) names: Words,
    /// Cities of the West.
    pub(super) cities: Words,
    /// Its states.
    pub(super) states: Words,
}

impl Text {
    pub(super) fn new(seed: u64) -> Text {
        let names = FIRST_NAMES.iter().flat_map(|first| LAST_NAMES.iter().map(move |last| format!("{first} {last}")));
        Text {
            seed,
            letters: OnceLock::new(),
            prose: OnceLock::new(),
            channels: OnceLock::new(),
            addresses: OnceLock::new(),
            names: Words::new(names),
            cities: Words::new(CITIES),
            states: Words::new(STATES),
        }
    }

    /// Random letters.
    pub(super) fn letters(&self) -> &TextPool {
        self.letters.get_or_init(|| {
            let stream = Stream::new(self.seed, "letters");
            let pairs = (0..u64::from(POOL_BYTES) / 2).map(|pair| stream.at(pair));
            TextPool::new(pairs.flat_map(|draw| [letter(draw.below(26)), letter(draw.low_below(26))]).collect())
        })
    }

    /// Random letters and blanks.
    pub(super) fn prose(&self) -> &TextPool {
        self.prose.get_or_init(|| {
            let stream = Stream::new(self.seed, "prose");
            let pairs = (0..u64::from(POOL_BYTES) / 2).map(|pair| stream.at(pair));
            TextPool::new(pairs.flat_map(|draw| special_pair(draw, b' ')).collect())
        })
    }

    /// The channels: the hot ones, then the others.
    pub(super) fn channels(&self) -> &Words {
        self.channels.get_or_init(|| {
            let others = (0..CHANNELS).map(|channel| format!("channel-{channel}"));
            Words::new(CHANNELS_HOT.iter().map(|hot| hot.to_string()).chain(others))
        })
    }

    /// Each channel's address.
    pub(super) fn addresses(&self) -> &Words {
        self.addresses.get_or_init(|| {
            let hot = (0..CHANNELS_HOT.len() as u64).map(|hot| self.address(hot));
            let unidentified = Stream::new(self.seed, "channel without an id");
            let others = (0..CHANNELS).map(|channel| {
                let address = self.address(CHANNELS_HOT.len() as u64 + u64::from(channel));
                if unidentified.at(u64::from(channel)).below(10) == 0 {
                    return address;
                }
                format!("{address}&channel_id={}", (channel.reverse_bits() as i32).unsigned_abs())
            });
            Words::new(hot.chain(others))
        })
    }

    fn address(&self, channel: u64) -> String {
        let stream = Stream::new(self.seed, "address");
        let part = |part: u64| {
            let place = (channel * 3 + part) * 4;
            let length = stream.at(place).below(2) as usize + 3;
            let pairs = (1..=2).flat_map(move |pair| special_pair(stream.at(place + pair), b'_'));
            pairs.take(length).map(char::from).collect::<String>()
        };
        format!("https://www.nexmark.com/{}/{}/{}/item.htm?query=1", part(0), part(1), part(2))
    }

    /// Where in [`Text::prose`] a string of 3 to `length_max - 1` characters lies, without the blanks around it.
    #[inline(always)]
    pub(super) fn sentence(&self, draw: Draw, length_max: u32) -> Range<u32> {
        let length = 3 + draw.below(length_max - 3);
        let start = draw.low_below(POOL_BYTES - length_max);
        let mut range = start..start + length;
        let text = self.prose().text();
        while !range.is_empty() && text[range.start as usize] == b' ' {
            range.start += 1;
        }
        while !range.is_empty() && text[range.end as usize - 1] == b' ' {
            range.end -= 1;
        }
        range
    }
}

/// Where in [`Text::letters`] the padding lies that brings a record of `size` bytes to `size_average`, on average.
#[inline(always)]
pub(super) fn padding(draw: Draw, size: u32, size_average: u32) -> Range<u32> {
    let missing = size_average.saturating_sub(size);
    let spread = (missing + 2) / 5;
    let length = missing - spread + draw.below(2 * spread);
    let start = draw.low_below(POOL_BYTES - length);
    start..start + length
}

fn letter(number: u32) -> u8 {
    b'a' + number as u8
}

fn special_pair(draw: Draw, special: u8) -> [u8; 2] {
    let character = |number: u32| match number % SPECIAL_ONE_IN {
        0 => special,
        _ => letter(number / SPECIAL_ONE_IN),
    };
    [character(draw.below(26 * SPECIAL_ONE_IN)), character(draw.low_below(26 * SPECIAL_ONE_IN))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;

    #[test]
    fn each_channel_has_its_address_and_nine_in_ten_their_id_in_it() {
        let text = Text::new(3);
        let channels = text.channels().column(0..CHANNELS + 4);
        let addresses = text.addresses().column(0..CHANNELS + 4);
        let (channels, addresses) = (channels.as_string_view(), addresses.as_string_view());
        assert_eq!((channels.value(0), channels.value(4)), ("Google", "channel-0"));
        let with_id = |channel: usize| addresses.value(channel).split_once("&channel_id=").map(|(_, id)| id);
        assert!((0..4).all(|hot| with_id(hot).is_none()));
        let identified = (4..10_004).filter(|&channel| with_id(channel).is_some()).count();
        assert!((8_850..9_150).contains(&identified), "{identified}");
        let one = (4..10_004).find(|&channel| channel >= 6 && with_id(channel).is_some()).unwrap();
        let id = ((one as u32 - 4).reverse_bits() as i32).unsigned_abs().to_string();
        assert_eq!((channels.value(one), with_id(one)), (format!("channel-{}", one - 4).as_str(), Some(id.as_str())));
        for address in addresses.iter().flatten() {
            let parts: Vec<&str> = address.split('/').collect();
            assert_eq!((parts.len(), parts[2]), (7, "www.nexmark.com"));
            assert!(parts[3..6].iter().all(|part| (3..=4).contains(&part.len())), "{address}");
            assert!(parts[6].starts_with("item.htm?query=1"));
        }
    }

    #[test]
    fn padding_has_the_missing_length_give_or_take_a_fifth() {
        let stream = Stream::new(1, "padding");
        let lengths: Vec<u32> =
            (0..10_000).map(|row| padding(stream.at(row), 32, 100)).map(|r| r.len() as u32).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&54), Some(&81)));
        assert!(padding(stream.at(0), 100, 100).is_empty());
        assert!(padding(stream.at(0), 200, 100).is_empty());
    }

    #[test]
    fn one_character_in_thirteen_of_prose_is_blank_and_sentences_are_trimmed() {
        let text = Text::new(5);
        let prose = text.prose().text();
        let blanks = prose.iter().filter(|&&character| character == b' ').count() as f64;
        assert!((blanks / prose.len() as f64 - 1.0 / 13.0).abs() < 0.001);
        let stream = Stream::new(5, "sentence");
        for row in 0..10_000 {
            let range = text.sentence(stream.at(row), 20);
            let sentence = std::str::from_utf8(&prose[range.start as usize..range.end as usize]).unwrap();
            assert!(sentence.len() < 20 && sentence.trim() == sentence);
        }
    }
}

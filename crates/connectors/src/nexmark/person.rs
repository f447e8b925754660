//! People.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use pelton_data::column::TextPool;

use super::text::{Text, padding};
use super::{FIRST_ID, World};
use crate::generated::{numbers, times};
use crate::random::Stream;

/// A column of `person`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PersonColumn {
    Id,
    Name,
    EmailAddress,
    CreditCard,
    City,
    State,
    DateTime,
    Extra,
}

/// The only number that counts towards a person's average size.
const FIXED_BYTES: u32 = 8;

/// Characters of the two parts of an email address, less than.
const MAILBOX: u32 = 7;
const PROVIDER: u32 = 5;

/// Four groups of four digits, with blanks between.
const CARD_BYTES: u32 = 19;

/// Draws people.
#[derive(Debug)]
pub(super) struct People {
    name: Stream,
    mailbox: Stream,
    provider: Stream,
    card: Stream,
    city: Stream,
    state: Stream,
    extra: Stream,
}

impl People {
    pub(super) fn new(seed: u64) -> People {
        People {
            name: Stream::new(seed, "person.name"),
            mailbox: Stream::new(seed, "person.emailAddress mailbox"),
            provider: Stream::new(seed, "person.emailAddress provider"),
            card: Stream::new(seed, "person.creditCard"),
            city: Stream::new(seed, "person.city"),
            state: Stream::new(seed, "person.state"),
            extra: Stream::new(seed, "person.extra"),
        }
    }

    /// One column of the people `events`.
    pub(super) fn column(&self, column: PersonColumn, events: &[u64], world: &World) -> ArrayRef {
        let e = events.iter().copied();
        let name = |e| self.name.at(e).below(world.text.names.len());
        let city = |e| self.city.at(e).below(world.text.cities.len());
        let state = |e| self.state.at(e).below(world.text.states.len());
        match column {
            PersonColumn::Id => numbers(e.map(|e| (FIRST_ID + world.timeline.last_person(e)) as i64)),
            PersonColumn::Name => world.text.names.column(e.map(name)),
            PersonColumn::EmailAddress => self.email_addresses(events, &world.text),
            PersonColumn::CreditCard => self.credit_cards(events),
            PersonColumn::City => world.text.cities.column(e.map(city)),
            PersonColumn::State => world.text.states.column(e.map(state)),
            PersonColumn::DateTime => times(e.map(|e| world.timeline.times.at_ms(e))),
            PersonColumn::Extra => {
                let range = |e| {
                    let (mailbox, provider) = self.email_parts(e, &world.text);
                    let email = mailbox.len() + provider.len() + "@.com".len();
                    let words = world.text.names.length(name(e))
                        + world.text.cities.length(city(e))
                        + world.text.states.length(state(e));
                    padding(
                        self.extra.at(e),
                        FIXED_BYTES + words + email as u32 + CARD_BYTES,
                        world.ratios.person_bytes,
                    )
                };
                Arc::new(world.text.letters().strings(e.map(range)))
            }
        }
    }

    fn email_parts(&self, e: u64, text: &Text) -> (Range<u32>, Range<u32>) {
        (text.sentence(self.mailbox.at(e), MAILBOX), text.sentence(self.provider.at(e), PROVIDER))
    }

    fn email_addresses(&self, events: &[u64], text: &Text) -> ArrayRef {
        let prose = text.prose().text();
        let part = |range: Range<u32>| &prose[range.start as usize..range.end as usize];
        made(events, 16, |e, bytes| {
            let (mailbox, provider) = self.email_parts(e, text);
            bytes.extend_from_slice(part(mailbox));
            bytes.push(b'@');
            bytes.extend_from_slice(part(provider));
            bytes.extend_from_slice(b".com");
        })
    }

    fn credit_cards(&self, events: &[u64]) -> ArrayRef {
        made(events, CARD_BYTES as usize, |e, bytes| {
            for group in 0..4 {
                let mut digits = self.card.at(4 * e + group).below(10_000);
                let mut characters = [b' '; 5];
                for character in characters[..4].iter_mut().rev() {
                    *character = b'0' + (digits % 10) as u8;
                    digits /= 10;
                }
                bytes.extend_from_slice(if group < 3 { &characters } else { &characters[..4] });
            }
        })
    }
}

/// One string for each event, written one after the other into one buffer.
fn made(events: &[u64], length: usize, mut write: impl FnMut(u64, &mut Vec<u8>)) -> ArrayRef {
    let mut bytes = Vec::with_capacity(events.len() * length);
    let ends: Vec<u32> = events
        .iter()
        .map(|&e| {
            write(e, &mut bytes);
            bytes.len() as u32
        })
        .collect();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let ranges = starts.zip(&ends).map(|(start, &end)| start..end);
    Arc::new(TextPool::new(bytes).strings(ranges))
}

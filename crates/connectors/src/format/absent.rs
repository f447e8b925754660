//! Names of columns that no row has.

use pelton_data::spelling::closest;

/// Names that are shown.
pub(super) const NAMES_SHOWN_MAX: usize = 10;

/// What was meant by the name of a column, or of a field, that no row has.
pub(super) fn hint(name: &str, names: &[String]) -> String {
    match closest(name, names.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if names.is_empty() => String::new(),
        None => {
            let more = if names.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
            let shown = names.iter().take(NAMES_SHOWN_MAX).map(|name| format!("'{name}'")).collect::<Vec<_>>();
            format!("the first rows also have {}{more}", shown.join(", "))
        }
    }
}

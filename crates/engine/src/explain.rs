//! What `EXPLAIN` says.

use pelton_plan::Catalog;
use pelton_plan::pipeline::Program;
use pelton_plan::query::Planned;

use crate::error::Error;
use crate::program_tables::ProgramTables;
use crate::settings::Settings;
use crate::shared_sources::{SharedSources, is_shared};
use crate::sharing::Known;
use crate::table::{Destination, Opened, Origin};
use crate::{emission, table};

/// The logical plan, the pipelines, the kernels, and what is not portable to Flink, as text.
///
/// # Errors
/// [`Error::Compile`] where a pipeline cannot be described; [`Error::Plan`] where the settings do not go with the query; [`Error::Table`]
/// where the options of a table make no sense.
pub(crate) fn explain(
    planned: &Planned,
    settings: &Settings,
    catalog: &Catalog,
    (program_tables, shared_sources): (&ProgramTables, &SharedSources),
) -> Result<String, Error> {
    let program = &planned.program;
    emission::check(program, settings)?;
    check_tables(program, settings, catalog, program_tables)?;
    let kernels = (0..program.pipelines.len()).map(|pipeline| kernel(program, pipeline));
    let mut sections = vec![
        ("logical plan", pelton_plan::explain::logical_plans(planned)),
        ("pipelines", pelton_plan::explain::pipelines(program)),
        ("kernels", kernels.collect::<Result<Vec<_>, _>>()?.join("\n")),
    ];
    let shared = sharing(program, settings, catalog, (program_tables, shared_sources))?;
    if !shared.is_empty() {
        sections.push(("sharing", shared.join("\n")));
    }
    let delivery = delivery(program, settings, catalog, program_tables)?;
    if !delivery.is_empty() {
        sections.push(("delivery", delivery.join("\n")));
    }
    let mut notes = pelton_plan::explain::portability(planned);
    if let Some((how, note)) = emission::explained(program, settings) {
        sections.push(("emission", how));
        notes.push(note);
    }
    if !notes.is_empty() {
        sections.push(("not portable to Flink", notes.join("\n")));
    }
    let section = |(title, body): (&str, String)| format!("== {title} ==\n{}\n", body.trim_end());
    Ok(sections.into_iter().map(section).collect::<Vec<_>>().join("\n"))
}

/// What becomes of the rows of each table when a job goes on from a checkpoint, where it has any.
fn delivery(
    program: &Program,
    settings: &Settings,
    catalog: &Catalog,
    program_tables: &ProgramTables,
) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    if settings.checkpoint_directory.is_none() {
        return Ok(lines);
    }
    for opened in table::opened(program, catalog, program_tables) {
        lines.push(match opened? {
            Opened::Output(output, Destination::Table(found)) => {
                let is_once = pelton_connectors::commits_rows(&found.definition.options);
                let delivery = if is_once { "exactly once" } else { "at least once" };
                format!("rows are written to {} {delivery}", output.name())
            }
            // Who provides a table says nothing of it.
            Opened::Output(output, Destination::Pulled(_) | Destination::Provided(..)) => {
                format!("rows are written to {} at least once", output.name())
            }
            Opened::Source(used, Origin::Table(found)) => {
                match pelton_connectors::is_read_on(&found.definition.options) {
                    true => format!("{} is read on from where it was", used.table),
                    false => format!("rows of {} that came after a checkpoint are lost with the process", used.table),
                }
            }
            Opened::Source(used, Origin::Pushed(_)) => {
                format!("rows of {} that came after a checkpoint are lost with the process", used.table)
            }
            // A query has no checkpoints.
            Opened::Output(_, Destination::Result) => return Ok(Vec::new()),
            Opened::Source(..) | Opened::Lookup(_) => continue,
        });
    }
    Ok(lines)
}

/// The tables that the program would read together with queries that run, with these.
fn sharing(
    program: &Program,
    settings: &Settings,
    catalog: &Catalog,
    (program_tables, shared_sources): (&ProgramTables, &SharedSources),
) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    let known = Known { catalog, program_tables, settings, shared_sources };
    if let Some((join, inputs)) = known.join(program)
        && shared_sources.joins.has_alike(&join, &inputs)
    {
        lines.push(format!("the {} runs once for all queries that have it", join.name()));
    }
    for source in 0..program.sources.len() {
        if known.sharing(program, source)?.is_some_and(|sharing| sharing.is_member) {
            let table = &program.sources[source].table;
            lines.push(format!(
                "rows of {table} are added up together for all queries that aggregate it by the same keys"
            ));
        }
    }
    for opened in table::opened(program, catalog, program_tables) {
        let (used, readers) = match opened? {
            Opened::Source(used, Origin::Pushed(push)) => (used, push.subscribers()),
            Opened::Source(used, Origin::Table(found)) if is_shared(found, used, settings) => {
                (used, shared_sources.subscribers_of(found, settings))
            }
            Opened::Source(..) | Opened::Output(..) | Opened::Lookup(_) => continue,
        };
        if !readers.is_empty() {
            let names: Vec<String> = readers.into_iter().map(|reader| reader.name).collect();
            lines.push(format!("{} is read together with {}", used.table, names.join(", ")));
        }
    }
    Ok(lines)
}

/// Checks the options of the tables as a program does when it starts.
fn check_tables(
    program: &Program,
    settings: &Settings,
    catalog: &Catalog,
    program_tables: &ProgramTables,
) -> Result<(), Error> {
    for opened in table::opened(program, catalog, program_tables) {
        match opened? {
            Opened::Lookup(lookup) => check_tables(&lookup.program, settings, catalog, program_tables)?,
            Opened::Output(_, Destination::Table(found)) => table::check_sink(found, settings)?,
            Opened::Source(used, Origin::Table(found)) => table::check_source(found, used, settings)?,
            Opened::Output(..) | Opened::Source(..) => {}
        }
    }
    Ok(())
}

/// One pipeline's kernel in readable form, and how its expressions run.
fn kernel(program: &Program, pipeline: usize) -> Result<String, Error> {
    let described = pelton_compiler::describe(program, pipeline)?;
    let mut text = format!("{}\n{}\n", program.pipeline_name(pipeline), described.text.trim_end());
    for (how, expressions) in [("compiled", &described.compiled), ("interpreted", &described.interpreted)] {
        if !expressions.is_empty() {
            text.push_str(&format!("{how}: {}\n", expressions.join("; ")));
        }
    }
    Ok(text)
}

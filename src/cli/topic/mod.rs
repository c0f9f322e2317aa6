//! `sitescout topic`: from a few example sites to a topic that can be crawled.

mod directory;
mod examples;
mod learning;
mod reading;
mod trust;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};

use crate::classify::SiteModel;
use crate::config::{Settings, TopicDefinition};
use crate::training::{KnownRole, KnownSites, OTHER, is_topic_name};
use crate::web::{SiteId, SiteVisit};

use self::directory::{Draft, TopicDirectory};
use self::learning::{LearnedTopic, LearningTask};
use self::trust::{ChangeReport, TrustReport};
use super::exit::UnusableSites;
use super::sources::{self, CARD_FILE, MODEL_FILE, TOPIC_FILE, WebSource};
use super::terminal::{Sanitized, complain, say};
use super::{ExitCode, read_settings};

/// The sites that the model was learned from, each with its verdict.
const KNOWN_SITES_FILE: &str = "known-sites.tsv";

const DEFAULT_MODELS: &str = "site-models";

const EXAMPLES: &str = "\
Examples:
  sitescout topic new pottery --config live.toml --sites a.example b.example c.example ...
  sitescout topic new pottery --config live.toml --from examples.txt
  sitescout topic new pottery --web warc:sites.warc.gz --sites a.example b.example ...
  sitescout topic add pottery --config live.toml --sites d.example
  sitescout topic reject pottery --config live.toml --sites glass.example
  sitescout crawl pottery --config live.toml --wanted 100

Five sites make a topic; three work, with a warning. What else there is on the web comes with the
program. Sites are fetched once: what is recorded in the directory of the topic is read from there,
also after an interruption, when the same command goes on.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Directory of all models; each topic is a subdirectory
    #[arg(long, value_name = "DIR", default_value = DEFAULT_MODELS, global = true)]
    models: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Learns a topic from example sites, and says how far to trust it
    New(NamedSites),
    /// Adds examples, and learns the topic anew
    Add(NamedSites),
    /// Says that sites are not of the topic, and learns it anew
    Reject(NamedSites),
    /// Says how far to trust a topic
    Show {
        /// The topic
        #[arg(value_name = "NAME")]
        topic: String,
    },
    /// Lists all topics
    List,
}

#[derive(Debug, Args)]
struct NamedSites {
    /// The topic, which is the name of its directory
    #[arg(value_name = "NAME", value_parser = topic_name)]
    topic: String,
    /// The sites, as hosts or URLs
    #[arg(long = "sites", value_name = "HOST", num_args = 1.., value_parser = site)]
    #[arg(required_unless_present = "from")]
    hosts: Vec<SiteId>,
    /// A file with the sites, one a line; what follows a tab is ignored, and so are lines that begin
    /// with `#`
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    from: Option<PathBuf>,
    /// Where pages come from instead of the live web: warc:FILE, which may be given several
    /// times, or generated:SITES,SEED(,LOCALITY)
    #[arg(long, value_name = "WEB")]
    web: Vec<WebSource>,
}

fn topic_name(name: &str) -> Result<String, String> {
    if is_topic_name(name) && name != OTHER {
        return Ok(name.to_owned());
    }
    Err(format!(
        "a topic is named by letters, digits, `_`, `-` and `.`, but not `all`, `mean`, `{OTHER}` or what \
         begins with a dot"
    ))
}

fn site(text: &str) -> Result<SiteId, String> {
    Ok(SiteVisit::to(text)?.site)
}

pub(super) fn run(
    arguments: &Arguments,
    config: Option<&Path>,
    settings: &Settings,
) -> anyhow::Result<ExitCode> {
    let commands = TopicCommands {
        models: &arguments.models,
        config,
        settings,
    };
    match &arguments.action {
        Action::New(sites) => commands.begin(sites)?,
        Action::Add(sites) => commands.change(sites, "add", with_examples)?,
        Action::Reject(sites) => commands.change(sites, "reject", with_rejected)?,
        Action::Show { topic } => commands.show(topic)?,
        Action::List => commands.list()?,
    }
    Ok(ExitCode::Success)
}

/// What all actions work with.
struct TopicCommands<'a> {
    models: &'a Path,
    config: Option<&'a Path>,
    settings: &'a Settings,
}

/// A topic as it was learned last.
struct OpenedTopic {
    directory: TopicDirectory,
    /// The text of its definition, and what it says.
    text: String,
    definition: TopicDefinition,
    model: SiteModel,
    known: Option<KnownSites>,
}

// === impl TopicCommands ===

impl TopicCommands<'_> {
    fn begin(&self, sites: &NamedSites) -> anyhow::Result<()> {
        let name = &*sites.topic;
        let directory = TopicDirectory::open(self.models, name)?;
        let draft = directory.draft()?;
        ensure!(
            !directory.exists(),
            "there is a topic in {} already: `sitescout topic add {name}` adds examples to it, \
             `sitescout topic show {name}` says how far to trust it; or choose another name",
            directory.topic.display()
        );
        let mut definition = TopicDefinition {
            name: name.to_owned(),
            ..TopicDefinition::default()
        };
        let named = sites.read()?;
        with_examples(&mut definition, &named);
        let task = LearningTask {
            definition,
            known_before: BTreeSet::new(),
            webs: &sites.web,
            settings: self.settings,
            command: sites.command("new", &named),
        };
        let learned = Self::learn(task, None, &directory, draft, |definition| {
            Ok(definition.to_toml())
        })?;
        self.report(name, &learned, &sites.web, &directory)
    }

    fn change(
        &self,
        sites: &NamedSites,
        action: &str,
        apply: fn(&mut TopicDefinition, &[SiteId]),
    ) -> anyhow::Result<()> {
        let name = &*sites.topic;
        let directory = TopicDirectory::open(self.models, name)?;
        let draft = directory.draft()?;
        let before = self.open(name)?;
        ensure!(
            !before.definition.target_sites.is_empty(),
            "{} names no examples: its model was learned from labels; begin a topic of your own with \
             `sitescout topic new`",
            before.directory.topic.join(TOPIC_FILE).display()
        );
        let mut definition = before.definition.clone();
        let named = sites.read()?;
        apply(&mut definition, &named);
        if definition == before.definition {
            say(&format!("nothing changes: {name} says so already"))?;
            return Ok(());
        }
        // Before anything is fetched.
        before.text_with_sites_of(&definition)?;
        let task = LearningTask {
            definition,
            known_before: sites_of(&before.definition),
            webs: &sites.web,
            settings: self.settings,
            command: sites.command(action, &named),
        };
        let learned = Self::learn(
            task,
            Some(&before.definition),
            &directory,
            draft,
            |definition| {
                before.ensure_unchanged()?;
                before.text_with_sites_of(definition)
            },
        )?;
        let changes = ChangeReport {
            before: before.known.as_ref(),
            now: &learned.known,
        };
        say(&changes.to_string())?;
        self.report(name, &learned, &sites.web, &directory)
    }

    /// Learns, and writes everything or nothing.
    fn learn(
        task: LearningTask<'_>,
        before: Option<&TopicDefinition>,
        directory: &TopicDirectory,
        draft: Draft<'_>,
        definition_text: impl Fn(&TopicDefinition) -> anyhow::Result<String>,
    ) -> anyhow::Result<LearnedTopic> {
        let learned = task.learn(directory, &draft).and_then(|learned| {
            ensure!(
                before != Some(&learned.definition),
                "none of the sites can be used, so nothing is changed"
            );
            Ok(learned)
        });
        let learned = match learned {
            Ok(learned) => learned,
            Err(error) => {
                if draft.has_recordings() {
                    complain(
                        "sitescout: what was fetched is kept: the same command, also with other sites, \
                         does not fetch it again",
                    );
                }
                return Err(error);
            }
        };
        let text = definition_text(&learned.definition)?;
        draft.complete(&[
            (TOPIC_FILE, text.as_bytes()),
            (MODEL_FILE, &learned.model.to_bytes()),
            (CARD_FILE, learned.card.as_bytes()),
            (KNOWN_SITES_FILE, learned.known.to_text().as_bytes()),
        ])?;
        Ok(learned)
    }

    fn report(
        &self,
        name: &str,
        learned: &LearnedTopic,
        webs: &[WebSource],
        directory: &TopicDirectory,
    ) -> anyhow::Result<()> {
        let count = |role| learned.known.with_role(role).count();
        say(&format!(
            "{}: learned from {} examples; {} sites are rejected\n",
            directory.topic.display(),
            count(KnownRole::Example),
            count(KnownRole::Rejected)
        ))?;
        let report = TrustReport {
            topic: name,
            model: &learned.model,
            known: Some(&learned.known),
            options: &self.options(webs),
        };
        Ok(say(&report.to_string())?)
    }

    fn show(&self, name: &str) -> anyhow::Result<()> {
        let topic = self.open(name)?;
        say(&format!("{name}: {}\n", topic.summary()))?;
        let report = TrustReport {
            topic: name,
            model: &topic.model,
            known: topic.known.as_ref(),
            options: &self.options(&[]),
        };
        Ok(say(&report.to_string())?)
    }

    fn list(&self) -> anyhow::Result<()> {
        let names = self.names()?;
        if names.is_empty() {
            complain(&format!(
                "there is no topic in {}; `sitescout topic new` makes one",
                self.models.display()
            ));
        }
        for name in names {
            if let Some(begun) = TopicDirectory::topic_of_draft(&name) {
                if is_topic_name(begun) && !self.models.join(begun).exists() {
                    say(&format!("{begun}: not finished; the same command goes on"))?;
                }
                continue;
            }
            match self.open(&name) {
                Ok(topic) => say(&format!("{name}: {}", topic.summary()))?,
                Err(error) => complain(&format!("sitescout: {name}: {error:#}")),
            }
        }
        Ok(())
    }

    fn open(&self, name: &str) -> anyhow::Result<OpenedTopic> {
        sources::check_topic_names(&[name.to_owned()])?;
        let directory = TopicDirectory::open(self.models, name)?;
        if !directory.exists() {
            let names = self.names()?;
            let names: Vec<String> = names
                .into_iter()
                .filter(|name| !name.starts_with('.'))
                .collect();
            bail!(
                "there is no topic `{}` in {}; there are: {}",
                Sanitized(name),
                self.models.display(),
                names.join(", ")
            );
        }
        // As it was learned, whatever threshold the definition sets.
        let model = sources::read_model(&directory.topic)?;
        let file = directory.topic.join(TOPIC_FILE);
        let definition = sources::topic_definition(&directory.topic)?;
        let text = if definition.is_some() {
            read_settings(&file)?
        } else {
            String::new()
        };
        let known = fs::read_to_string(directory.topic.join(KNOWN_SITES_FILE)).ok();
        Ok(OpenedTopic {
            known: known.and_then(|text| KnownSites::parse(&text, model.fingerprint())),
            definition: definition.unwrap_or_default(),
            directory,
            text,
            model,
        })
    }

    /// The names of directories of topics, and of drafts.
    fn names(&self) -> anyhow::Result<Vec<String>> {
        if !self.models.exists() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(self.models)
            .with_context(|| format!("cannot read {}", self.models.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_topic = is_topic_name(&name) && entry.path().join(MODEL_FILE).exists();
            if is_topic || TopicDirectory::topic_of_draft(&name).is_some() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The options that the next commands need, too.
    fn options(&self, webs: &[WebSource]) -> String {
        let mut options = String::new();
        let mut add = |name: &str, value: &Path| {
            // Writing to a string cannot fail.
            let _ = write!(options, " --{name} {}", value.display());
        };
        if let Some(config) = self.config {
            add("config", config);
        }
        if self.models != Path::new(DEFAULT_MODELS) {
            add("models", self.models);
        }
        for web in webs {
            if let WebSource::Archive(file) = web {
                add("web", Path::new(&format!("warc:{}", file.display())));
            }
        }
        options
    }
}

// === impl NamedSites ===

impl NamedSites {
    /// The command, for the card: without the paths of the machine.
    fn command(&self, action: &str, named: &[SiteId]) -> String {
        let hosts: Vec<&str> = named.iter().map(SiteId::as_str).collect();
        format!(
            "sitescout topic {action} {} --sites {}",
            self.topic,
            hosts.join(" ")
        )
    }

    /// The sites of the command line, or those of the file.
    fn read(&self) -> anyhow::Result<Vec<SiteId>> {
        let Some(file) = &self.from else {
            return Ok(self.hosts.clone());
        };
        let bytes =
            fs::read(file).with_context(|| format!("cannot read the sites {}", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut sites = Vec::new();
        let mut mistakes = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let host = line.split('\t').next().unwrap_or_default().trim();
            if host.is_empty() || host.starts_with('#') {
                continue;
            }
            match site(host) {
                Ok(site) => sites.push(site),
                Err(error) => mistakes.push(format!(
                    "{}:{number}: {}",
                    file.display(),
                    Sanitized(&error)
                )),
            }
        }
        if sites.is_empty() && mistakes.is_empty() {
            mistakes.push(format!("{} names no site", file.display()));
        }
        if mistakes.is_empty() {
            return Ok(sites);
        }
        Err(UnusableSites(mistakes).into())
    }
}

// === impl OpenedTopic ===

impl OpenedTopic {
    /// Fails if somebody has edited the definition since it was read.
    fn ensure_unchanged(&self) -> anyhow::Result<()> {
        let path = self.directory.topic.join(TOPIC_FILE);
        let now = fs::read_to_string(&path);
        let now = now.with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            now == self.text,
            "{} was edited meanwhile, so nothing is changed: the same command uses what it says now",
            path.display()
        );
        Ok(())
    }

    /// The text of the definition with other sites.
    fn text_with_sites_of(&self, definition: &TopicDefinition) -> anyhow::Result<String> {
        definition.with_own_sites(&self.text).with_context(|| {
            format!(
                "{} is written in a way that this command cannot change; write `start_sites` at its top, and \
                 `target_sites` and `other_sites` as lists in [training]",
                self.directory.topic.join(TOPIC_FILE).display()
            )
        })
    }

    /// One line for lists.
    fn summary(&self) -> String {
        let count = |groups: &[Vec<String>]| groups.iter().map(Vec::len).sum::<usize>();
        let examples = count(&self.definition.target_sites);
        let mut parts = vec![if examples == 0 {
            "learned from labels".to_owned()
        } else {
            format!(
                "{examples} examples, {} rejected",
                count(&self.definition.other_sites)
            )
        }];
        if let Some(known) = &self.known {
            let reliability = known.reliability();
            let shares = [
                ("precision", reliability.precision),
                ("recall", reliability.recall),
            ];
            for (name, share) in shares {
                parts.extend(share.map(|share| format!("{name} {share}")));
            }
        }
        if !self.definition.description.is_empty() {
            parts.push(Sanitized(&self.definition.description).to_string());
        }
        parts.join("; ")
    }
}

/// Makes sites examples; they are also where a crawl begins. Those of one owner are one group.
fn with_examples(definition: &mut TopicDefinition, sites: &[SiteId]) {
    for site in sites {
        remove(&mut definition.other_sites, site);
        if is_in(&definition.target_sites, site) {
            continue;
        }
        place(&mut definition.target_sites, site);
        if !definition
            .start_sites
            .iter()
            .any(|host| is_site(host, site))
        {
            definition.start_sites.push(site.to_string());
        }
    }
}

/// Makes sites examples of what the topic is not.
fn with_rejected(definition: &mut TopicDefinition, sites: &[SiteId]) {
    for site in sites {
        remove(&mut definition.target_sites, site);
        definition.start_sites.retain(|host| !is_site(host, site));
        if !is_in(&definition.other_sites, site) {
            place(&mut definition.other_sites, site);
        }
    }
}

/// Whether a host is of a site, in any spelling.
fn is_site(host: &str, site: &SiteId) -> bool {
    host.parse().is_ok_and(|own: SiteId| own == *site)
}

fn is_in(groups: &[Vec<String>], site: &SiteId) -> bool {
    groups.iter().flatten().any(|host| is_site(host, site))
}

fn remove(groups: &mut Vec<Vec<String>>, site: &SiteId) {
    for group in groups.iter_mut() {
        group.retain(|host| !is_site(host, site));
    }
    groups.retain(|group| !group.is_empty());
}

/// Adds a site to the group of its owner.
fn place(groups: &mut Vec<Vec<String>>, site: &SiteId) {
    let is_of_owner = |host: &String| {
        let own: Result<SiteId, _> = host.parse();
        own.is_ok_and(|own| own.registrable_domain() == site.registrable_domain())
    };
    match groups
        .iter_mut()
        .find(|group| group.iter().any(is_of_owner))
    {
        Some(group) => group.push(site.to_string()),
        None => groups.push(vec![site.to_string()]),
    }
}

/// All examples and rejected sites.
fn sites_of(definition: &TopicDefinition) -> BTreeSet<SiteId> {
    let hosts = definition
        .target_sites
        .iter()
        .chain(&definition.other_sites);
    hosts
        .flatten()
        .filter_map(|host| host.parse().ok())
        .collect()
}

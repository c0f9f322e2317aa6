//! Simulated power cuts: every file as of the last sync, plus any part of what was written later.
//!
//! A disk keeps what was synced. Of later writes it may keep any block of 4 KiB and lose any
//! other, and a file that has grown may have its old length again. So the files are copied when
//! a sync has returned, and once more at the next one, with everything in them that was applied
//! in between. From these two images, crash images are composed at random. Each is opened like
//! any store and held against what was applied: it must be, record by record, the state after
//! the last sync or after a later group. Then a crawl goes on with it.
//!
//! Segments are an eighth as large as in a real store, and evidence is kept short in the same
//! proportion: so segments are filled, freed and reused within a short crawl, and no page
//! becomes a blob (`records` has the reason why there are none).

use std::collections::BTreeMap;
use std::fs;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::SystemTime;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};
use tokio::time::Instant;

use super::engine::{Changes, DiskEngine, Engine, Entry, open_by};
use super::sled_engine::SledEngine;
use super::{
    BorderCaps, ClaimedSite, CrawlStore, KeyValueStore, NewEdge, NewSite, Rank, Ranking, ReadStore,
    Resolution, Standing, StoreError, TakeRequest, TopicOpening, VisitOutcome,
};
use crate::config::{OldVerdicts, StoreSettings};
use crate::telemetry::clock;
use crate::web::{
    ModelFingerprint, PageConfidence, PageKind, PageStep, PageUrl, SiteConfidence, SiteReport,
    SiteVisit, StepOutcome, TellingWords, Verdict,
};

/// What a disk keeps or loses as a whole.
const BLOCK: usize = 4_096;

const SEGMENT_BYTES: usize = 64 << 10;

/// Crash images composed for each power cut.
const IMAGES_PER_CUT: usize = 4;

/// Sites that enter at the beginning, and how many there are in all.
const START_SITES: u64 = 150;
const ALL_SITES: u64 = 400;

/// How often sites are claimed between two rounds of verdicts, in separate commits.
const TAKES_PER_ROUND: usize = 30;

/// The contents of files, by their paths.
type Image = BTreeMap<PathBuf, Vec<u8>>;

/// All records of a store.
type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Numbers of verdicts that were acknowledged, and the hosts they are about.
type Acknowledged = BTreeMap<u64, String>;

// === the disk ===

/// A moment at which the power is cut.
struct PowerCut {
    /// The files after the last sync, and the records in them.
    synced: (Image, Records),
    /// The files as they would be if nothing were lost.
    written: Image,
    /// The groups that were applied since the last sync.
    later: Vec<Changes>,
    acknowledged: Acknowledged,
    seed: u64,
}

/// sled, with copies of its files taken at syncs.
struct ObservedDisk {
    sled: SledEngine,
    directory: PathBuf,
    acknowledged: Arc<Mutex<Acknowledged>>,
    /// Only every n-th call of `sync` counts. More than one shows what happens without syncs.
    calls_per_sync: usize,
    /// Power is cut before every n-th sync.
    syncs_per_cut: usize,
    observer: Mutex<Observer>,
}

struct Observer {
    random: Xoshiro256PlusPlus,
    calls: usize,
    records: Records,
    later: Vec<Changes>,
    /// The last sync, if the power is to be cut before the next.
    synced: Option<(Image, Records)>,
    cuts: mpsc::SyncSender<PowerCut>,
}

impl Engine for ObservedDisk {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.sled.get(key)
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a [u8],
        after: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a> {
        self.sled.scan(prefix, after)
    }

    fn scan_back<'a>(
        &'a self,
        prefix: &'a [u8],
        before: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a> {
        self.sled.scan_back(prefix, before)
    }

    fn apply(&self, changes: Changes) -> Result<(), StoreError> {
        let mut observer = self.observer.lock().unwrap();
        apply_to(&mut observer.records, &changes);
        observer.later.push(changes.clone());
        drop(observer);
        self.sled.apply(changes)
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Syncing changes nothing in what can be read from a file, so the files show after it
        // what was written before it.
        self.sled.sync()?;
        let mut observer = self.observer.lock().unwrap();
        observer.calls += 1;
        if !observer.calls.is_multiple_of(self.calls_per_sync) {
            return Ok(());
        }
        let syncs = observer.calls / self.calls_per_sync;
        let later = mem::take(&mut observer.later);
        if let Some(synced) = observer.synced.take() {
            // Without syncs nothing is guaranteed.
            let promised = self.calls_per_sync == 1;
            let acknowledged = promised.then(|| self.acknowledged.lock().unwrap().clone());
            let cut = PowerCut {
                synced,
                written: image_of(&self.directory),
                later,
                acknowledged: acknowledged.unwrap_or_default(),
                seed: observer.random.r#gen(),
            };
            observer.cuts.send(cut).unwrap();
        }
        if syncs.is_multiple_of(self.syncs_per_cut) {
            observer.synced = Some((image_of(&self.directory), observer.records.clone()));
        }
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        self.sled.disk_bytes()
    }
}

fn apply_to(records: &mut Records, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => records.insert(key.clone(), value.clone()),
            None => records.remove(key),
        };
    }
}

fn image_of(directory: &Path) -> Image {
    let mut image = Image::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(below) = directories.pop() {
        for entry in fs::read_dir(directory.join(&below)).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                directories.push(path);
            } else {
                let bytes = fs::read(directory.join(&path)).unwrap();
                image.insert(path, bytes);
            }
        }
    }
    image
}

// === what is left of it ===

impl PowerCut {
    /// What a disk might hold after it.
    fn crash_image(&self, random: &mut Xoshiro256PlusPlus) -> Image {
        let (synced, _) = &self.synced;
        let mut image = synced.clone();
        for (path, written) in &self.written {
            match synced.get(path) {
                Some(synced) if synced == written => {}
                Some(synced) => {
                    image.insert(path.clone(), crash_file(synced, written, random));
                }
                // A file without a durable name may be gone, or empty.
                None => match random.gen_range(0..3) {
                    0 => {}
                    1 => drop(image.insert(path.clone(), Vec::new())),
                    _ => drop(image.insert(path.clone(), written.clone())),
                },
            }
        }
        image
    }
}

/// A file of which some later writes are lost.
fn crash_file(synced: &[u8], written: &[u8], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let (least, most) = (
        synced.len().min(written.len()),
        synced.len().max(written.len()),
    );
    let length = match random.gen_range(0..3) {
        0 => least,
        1 => most,
        _ => random
            .gen_range(least..=most)
            .next_multiple_of(BLOCK)
            .min(most),
    };
    let share_kept = [1.0, 0.9, 0.5, 0.1][random.gen_range(0..4)];
    let mut file = vec![0; length];
    for (number, block) in file.chunks_mut(BLOCK).enumerate() {
        let source = if random.gen_bool(share_kept) {
            written
        } else {
            synced
        };
        // Growth whose contents are lost reads as zeros.
        let source = source.get(number * BLOCK..).unwrap_or_default();
        let bytes = source.len().min(block.len());
        block[..bytes].copy_from_slice(&source[..bytes]);
    }
    file
}

fn open_segmented(path: &Path, settings: &StoreSettings) -> Result<SledEngine, StoreError> {
    open_by(path, |directory| {
        SledEngine::open_segmented(directory, settings, SEGMENT_BYTES)
    })
}

/// Opens a crash image and continues the crawl; returns what is wrong with it, if anything.
fn examine(image: &Image, cut: &PowerCut, runtime: &Runtime) -> Result<(), String> {
    let directory = new_directory();
    fs::create_dir_all(directory.path().join("sled/blobs")).unwrap();
    for (path, bytes) in image {
        fs::write(directory.path().join(path), bytes).unwrap();
    }
    let settings = StoreSettings::default();
    let engine = open_segmented(directory.path(), &settings);
    let engine = engine.map_err(|error| error.to_string())?;
    let found: Result<Records, StoreError> = engine.scan(b"", None).collect();
    let found = found.map_err(|error| error.to_string())?;
    let (_, mut records) = cut.synced.clone();
    let mut later = cut.later.iter();
    while records != found {
        let Some(changes) = later.next() else {
            return Err(format!("{} records are not those applied", found.len()));
        };
        apply_to(&mut records, changes);
    }
    let store = KeyValueStore::over_disk(engine, &settings);
    let store = store.map_err(|error| error.to_string())?;
    let going_on = crawl_on(&store, &cut.acknowledged);
    runtime
        .block_on(going_on)
        .map_err(|error| error.to_string())
}

/// Checks a store through its interfaces, and records one more verdict.
async fn crawl_on(store: &KeyValueStore, acknowledged: &Acknowledged) -> Result<(), StoreError> {
    let topic = store.open_topic(opening()).await?;
    let judged = store.judged(topic, 0, usize::MAX).await?;
    let numbers = judged.iter().map(|judged| judged.seq);
    assert!(numbers.eq(1..=judged.len() as u64), "a gap in the sequence");
    let hosts: Vec<String> = judged
        .iter()
        .map(|judged| judged.site.to_string())
        .collect();
    for (seq, host) in acknowledged {
        let number = usize::try_from(*seq).unwrap() - 1;
        assert_eq!(hosts.get(number), Some(host), "verdict {seq}");
    }
    let totals = store.totals(topic).await?;
    assert_eq!(totals.taken, 0, "no site is claimed after a start");
    if totals.border == 0 {
        // Nothing had entered by the last sync.
        store.enter(topic, vec![new_site(ALL_SITES)]).await?;
    }
    let taken = store.take(topic, TakeRequest::any(1, clock::now())).await?;
    let outcome = VisitOutcome {
        resolution: Resolution::Judged,
        ..outcome(&taken.sites[0], &mut Xoshiro256PlusPlus::seed_from_u64(1))
    };
    let recorded = store.record(vec![outcome]).await?;
    assert_eq!(recorded[0].seq(), Some(judged.len() as u64 + 1));
    Ok(())
}

/// A directory in memory, if there is one: real syncs prove nothing here and take long.
fn new_directory() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

// === the crawl ===

struct FirstCome;

impl Ranking for FirstCome {
    fn name(&self) -> &'static str {
        "first-come"
    }

    fn rank(&self, _: &Standing) -> Rank {
        Rank { value: 0.0, tie: 0 }
    }
}

const MODEL: ModelFingerprint = ModelFingerprint::from_bits(1);

fn opening() -> TopicOpening {
    TopicOpening {
        name: "topic".to_owned(),
        ranking: Arc::new(FirstCome),
        caps: BorderCaps::per_domain(u32::MAX),
        platforms: Arc::default(),
        model: MODEL,
        old_verdicts: OldVerdicts::Keep,
        recheck_after: None,
        watched_pages: 5_000,
        hosts: Arc::default(),
    }
}

/// Sites found together are not adjacent in the store.
fn home(number: u64) -> PageUrl {
    let name = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("https://h{name:016x}.example/").parse().unwrap()
}

fn new_site(number: u64) -> NewSite {
    NewSite {
        entrance: home(number),
        is_start: false,
    }
}

/// A verdict on a site with some evidence and edges, or a visit to be repeated at once.
fn outcome(taken: &ClaimedSite, random: &mut Xoshiro256PlusPlus) -> VisitOutcome {
    let pages = random.gen_range(0..4);
    let steps = (0..pages).map(|number| {
        let path = "path/".repeat(random.gen_range(0..30));
        PageStep {
            url: format!("{}{path}{number}", taken.entrance).parse().unwrap(),
            kind: PageKind::Inner,
            outcome: StepOutcome::Spoke,
            confidence: PageConfidence::NEUTRAL,
            site_confidence: SiteConfidence::NEUTRAL,
            telling_words: TellingWords::default(),
            transversal_links: 0,
        }
    });
    let report = SiteReport {
        verdict: Verdict::Relevant,
        steps: steps.collect(),
        ..SiteReport::interrupted(SiteVisit::entering(&taken.entrance), MODEL)
    };
    let edges = (0..random.gen_range(0..5)).map(|_| NewEdge {
        entrance: home(random.gen_range(0..ALL_SITES)),
        global: 0.5,
        local: 0.5,
        pages: 1,
    });
    let edges = edges.collect();
    let resolution = if random.gen_ratio(1, 8) {
        Resolution::Judged
    } else {
        Resolution::Deferred(SystemTime::UNIX_EPOCH)
    };
    VisitOutcome {
        claim: taken.claim.clone(),
        report,
        edges,
        rank: 1.0,
        resolution,
        keep_evidence: true,
    }
}

/// Claims sites repeatedly, and records outcomes.
async fn crawl(disk: Arc<ObservedDisk>, rounds: usize, seed: u64) -> Result<(), StoreError> {
    let acknowledged = Arc::clone(&disk.acknowledged);
    let engine: Arc<dyn Engine> = disk.clone();
    let store = KeyValueStore::over(engine, &StoreSettings::default())?;
    disk.sled.mark_ready()?;
    drop(disk);
    let topic = store.open_topic(opening()).await?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let sites = (0..START_SITES).map(new_site).collect();
    store.enter(topic, sites).await?;
    for _ in 0..rounds {
        let mut taken = Vec::new();
        for _ in 0..TAKES_PER_ROUND {
            let taking = TakeRequest::any(random.gen_range(1..4), clock::now());
            taken.extend(store.take(topic, taking).await?.sites);
        }
        for portion in taken.chunks(16) {
            let outcomes = portion.iter().map(|taken| outcome(taken, &mut random));
            let recorded = store.record(outcomes.collect()).await?;
            let mut acknowledged = acknowledged.lock().unwrap();
            for (taken, recorded) in portion.iter().zip(recorded) {
                let host = taken.site().to_string();
                acknowledged.extend(recorded.seq().map(|seq| (seq, host)));
            }
        }
    }
    Ok(())
}

/// Cuts the power of a crawl repeatedly; returns the faults, and the number of crash images.
fn cut_power(rounds: usize, syncs_per_cut: usize, calls_per_sync: usize) -> (Vec<String>, usize) {
    const SEED: u64 = 1;
    let directory = new_directory();
    let settings = StoreSettings::default();
    let opened = open_segmented(directory.path(), &settings).unwrap();
    let (cuts, moments) = mpsc::sync_channel::<PowerCut>(2);
    // Of a store that is being begun, the mark of the directory alone is durable.
    let mut begun = image_of(directory.path());
    begun.retain(|path, _| path == Path::new("sitescout-store"));
    let disk = Arc::new(ObservedDisk {
        sled: opened,
        directory: directory.path().to_owned(),
        acknowledged: Arc::default(),
        calls_per_sync,
        syncs_per_cut,
        observer: Mutex::new(Observer {
            random: Xoshiro256PlusPlus::seed_from_u64(SEED),
            calls: 0,
            records: Records::new(),
            later: Vec::new(),
            synced: Some((begun, Records::new())),
            cuts,
        }),
    });
    let examiner = thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        let (mut faults, mut images) = (Vec::new(), 0);
        for cut in moments {
            let is_blob = |path: &PathBuf| path.starts_with("sled/blobs");
            assert!(!cut.written.keys().any(is_blob), "evidence is too long");
            let mut random = Xoshiro256PlusPlus::seed_from_u64(cut.seed);
            for _ in 0..IMAGES_PER_CUT {
                let image = cut.crash_image(&mut random);
                let examined = AssertUnwindSafe(|| examine(&image, &cut, &runtime));
                let examined = panic::catch_unwind(examined);
                faults.extend(examined.unwrap_or_else(|_| Err("a panic".to_owned())).err());
                images += 1;
            }
        }
        (faults, images)
    });
    let runtime = Runtime::new().unwrap();
    runtime.block_on(crawl(disk, rounds, SEED)).unwrap();
    examiner.join().unwrap()
}

#[test]
#[allow(clippy::print_stdout, reason = "it tells what it has seen")]
fn a_power_cut_loses_nothing_that_was_synced() {
    let started = Instant::now();
    let (faults, images) = cut_power(50, 23, 1);
    let spent = started.elapsed();
    println!(
        "{} of {images} crash images lost records, {spent:?}",
        faults.len()
    );
    assert!(faults.is_empty(), "{faults:?}");
    assert!(images >= 200, "{images} crash images");
}

/// Shows that the test above can fail.
#[test]
#[allow(clippy::print_stdout, reason = "it tells what it has seen")]
fn the_simulation_finds_records_that_a_store_without_syncs_loses() {
    let (faults, images) = cut_power(20, 1, 30);
    println!("{} of {images} crash images lost records", faults.len());
    assert!(!faults.is_empty(), "of {images} crash images");
}

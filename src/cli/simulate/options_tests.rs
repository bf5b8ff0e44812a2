//! Which options win, and what is refused.

use super::*;

fn options(toml: &str) -> Options {
    toml::from_str(toml).unwrap()
}

fn complaint(toml: &str) -> String {
    match toml::from_str::<Options>(toml) {
        Err(error) => error.to_string(),
        Ok(options) => options.resolve().unwrap_err().to_string(),
    }
}

#[test]
fn the_first_source_that_says_something_wins() {
    let merged = options("members = 10").or(options("members = 20\nslot = '2s'")).or(options("slot = 9"));
    assert_eq!(merged, options("members = 10\nslot = '2s'"));
}

#[test]
fn every_option_can_be_merged() {
    let all = options(
        "rules = 'all'\nwithout = ['custody']\nmembers = 1\nactive = 1\ncapacity = 1\nslot = 1\nskip = 1\nduration = 1
         loss_every = 1\ndelay = 1\nscouts = 1\nview = 'full'\ncrash_every = 1\nrestart_after = 1\njoin_every = 1
         leave_every = 1\nmin_interval = 1\nmax_interval = 1\nregeneration_mean = 1\nlongest_wait = 1.5\nstream_rate = '650k'\nclock_skew = 1\noverload = true\nsurge = 1\nruns = 1\nseed = 1",
    );
    assert_eq!(Options::default().or(all.clone()), all);
    assert_eq!(all.clone().or(Options::default()), all);
    assert!(!format!("{all:?}").contains("None"), "the list above is complete");
}

#[test]
fn without_anything_it_is_the_case_study_with_all_rules() {
    let plan = Options::default().resolve().unwrap();
    let names: Vec<_> = plan.rule_sets.iter().map(|rules| rules.name.as_str()).collect();
    assert_eq!(names, ["uncoordinated", "early", "classic", "guarded"]);
    assert_eq!(plan.rule_sets.last().unwrap().scenario, Scenario::default());
}

#[test]
fn guarded_without_all_its_parts_is_classic() {
    let plan = options(
        "rules = ['guarded', 'classic']
                        without = ['scouting', 'sightings', 'custody', 'stretch', 'meeting']",
    );
    let plan = plan.resolve().unwrap();
    assert_eq!(plan.rule_sets[0].scenario, plan.rule_sets[1].scenario);
    assert_eq!(plan.rule_sets[0].name, "guarded without scouting, sightings, custody, stretch, meeting");
}

#[test]
fn nonsense_is_refused_by_the_name_of_its_field() {
    for (toml, word) in [
        ("runs = 0", "runs"),
        ("slot = '0s'", "slot"),
        ("slot = '1s'\nskip = '1s'", "skip"),
        ("capacity = 0", "capacity"),
        ("members = 0", "members"),
        ("members = 20\nscouts = 21", "scouts"),
        ("scouts = 0", "scouts"),
        ("min_interval = 0", "min-interval"),
        ("max_interval = '1s'", "max-interval"),
        ("regeneration_mean = 0", "regeneration-mean"),
        ("longest_wait = 0.9", "longest-wait"),
        ("stream_rate = 0", "stream"),
        ("stream_rate = 'fast'", "fast"),
        ("view = 0", "view"),
        ("view = 'some'", "full"),
        ("rules = 'classic'\nwithout = 'custody'", "without"),
        ("rules = []", "rules"),
        ("rules = 'anarchy'", "names"),
        ("slots = '4s'", "slots"),
        ("slot = '4 furlongs'", "furlongs"),
        ("slot = -1", "range"),
    ] {
        assert!(complaint(toml).contains(word), "{toml}: {}", complaint(toml));
    }
}

#[test]
fn a_small_circle_scouts_everybody() {
    let plan = options("rules = 'guarded'\nmembers = 3").resolve().unwrap();
    let Coordination::Agents(rules) = &plan.rule_sets[0].scenario.coordination else { panic!("agents") };
    assert_eq!(rules.scouting.as_ref().unwrap().scouts, 2);
}

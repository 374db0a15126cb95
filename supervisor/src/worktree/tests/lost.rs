//! What a removal would lose: git's own answers tell of none of it.

use super::*;

#[test]
fn a_part_that_its_owner_has_not_checked_out_is_a_job_s_to_change() {
    let world = World::new();
    fs::create_dir(world.repo().join("other")).expect("a folder");
    fs::write(world.repo().join("other/b"), "one\n").expect("written");
    git(&world.repo(), &["add", "-A"]);
    git(&world.repo(), &["commit", "-q", "-m", "second"]);
    git(&world.repo(), &["sparse-checkout", "set", "src"]);
    assert!(!world.repo().join("other").exists());
    let place = world.ready(1);
    fs::write(place.path.join("other/b"), "two\n").expect("all of it is there");
    let end = world.close(1);
    assert_eq!((end.kept, end.trouble), (true, None));
    assert_eq!(git(&world.repo(), &["show", "ukai/fix-a:other/b"]), "two");
    assert_eq!(git(&world.repo(), &["config", "--get", "core.sparseCheckout"]), "true", "the owner's is as it was");
    // One that was made with the part missing.
    let place = world.ready(2);
    git(&place.path, &["sparse-checkout", "set", "src"]);
    fs::create_dir(place.path.join("other")).expect("a folder");
    fs::write(place.path.join("other/b"), "three\n").expect("written");
    let end = world.close(2);
    assert!(end.kept && end.commit.is_none() && end.trouble.is_some_and(|why| why.contains("other/b")));
    assert_eq!(fs::read_to_string(place.path.join("other/b")).expect("kept"), "three\n");
}

#[test]
fn what_lies_in_a_submodule_s_folder_is_kept_and_told() {
    let world = World::new();
    let head = git(&world.repo(), &["rev-parse", "HEAD"]);
    git(&world.repo(), &["update-index", "--add", "--cacheinfo", &format!("160000,{head},subm")]);
    git(&world.repo(), &["commit", "-q", "-m", "a submodule"]);
    world.ready(1);
    assert_eq!(world.close(1), End::default(), "its empty folder is nothing");
    for (number, rest) in [(1, false), (2, true)] {
        let place = world.ready(number);
        fs::write(place.path.join("subm/g"), "x").expect("written");
        if rest {
            fs::write(place.path.join("rest"), "x").expect("written");
        }
        let end = world.close(number);
        assert!(end.kept && end.trouble.as_ref().is_some_and(|why| why.contains("subm/g")), "{end:?}");
        assert_eq!(end.commit.is_some(), rest);
        assert!(place.path.join("subm/g").exists());
    }
}

#[test]
fn what_is_ignored_is_kept_by_whichever_rule() {
    let world = World::new();
    let all = world.temp.path().join("all");
    fs::write(&all, "*\n").expect("written");
    let place = world.ready(1);
    fs::create_dir(place.path.join("out")).expect("a folder");
    fs::write(place.path.join("out/.gitignore"), "*\n").expect("written");
    fs::write(place.path.join("out/result"), "x").expect("written");
    let only_ignored = End { kept: true, commit: None, trouble: None };
    assert_eq!(world.close(1), only_ignored);
    assert!(place.path.join("out/result").exists());
    let place = world.ready(2);
    fs::write(place.path.join("ignored"), "x").expect("written");
    assert_eq!(world.close(2), only_ignored);
    git(&world.repo(), &["config", "core.excludesFile", all.to_str().expect("text")]);
    let place = world.ready(3);
    fs::write(place.path.join("result"), "x").expect("written");
    assert_eq!(world.close(3), only_ignored);
    assert!(place.path.join("result").exists());
}

#[test]
fn no_line_of_attributes_keeps_the_rest_from_its_commit() {
    let world = World::new();
    git(&world.repo(), &["config", "core.safecrlf", "true"]);
    git(&world.repo(), &["config", "core.autocrlf", "true"]);
    let place = world.ready(1);
    fs::write(place.path.join(".gitattributes"), "* working-tree-encoding=UTF-16\n*.c text eol=lf\n").expect("written");
    fs::write(place.path.join("new.c"), "a\r\nb\n").expect("written");
    let end = world.close(1);
    assert_eq!((end.kept, end.trouble), (true, None));
    assert_eq!(git(&world.repo(), &["show", "ukai/fix-a:new.c"]), "a\r\nb");
}

#[test]
fn a_committed_line_of_attributes_changes_nothing_that_a_job_did_not_touch() {
    let world = World::new();
    fs::write(world.repo().join("crlf"), "a\r\nb\r\n").expect("written");
    git(&world.repo(), &["add", "-A"]);
    git(&world.repo(), &["commit", "-q", "-m", "not normalised"]);
    fs::write(world.repo().join(".gitattributes"), "* text=auto eol=crlf\n").expect("written");
    git(&world.repo(), &["add", ".gitattributes"]);
    git(&world.repo(), &["commit", "-q", "-m", "attributes"]);
    world.ready(1);
    assert_eq!(world.close(1), End::default());
}

#[test]
fn a_trouble_is_no_longer_than_a_paragraph() {
    let world = World::new();
    let place = world.ready(1);
    for number in 0..3 {
        let within = place.path.join(format!("{number}{}", "ä".repeat(120))).join("b".repeat(200));
        fs::create_dir_all(within.join(".git")).expect("folders");
    }
    let trouble = world.close(1).trouble.expect("a trouble");
    assert_eq!(trouble.chars().count(), 501, "{trouble}");
}

#[test]
fn a_branch_that_is_in_the_way_of_all_its_names_is_gone_around() {
    let world = World::new();
    git(&world.repo(), &["branch", "ukai/fix-a/deeper"]);
    world.ready(1);
    assert_eq!(world.record(1).branch, format!("ukai/fix-a-{}", id(1)));
    world.close(1);
    git(&world.repo(), &["branch", "-m", "ukai/fix-a/deeper", "aside"]);
    git(&world.repo(), &["branch", "ukai"]);
    let place = world.ready(2);
    assert_eq!(world.record(2).branch, format!("ukai-fix-a-{}", id(2)));
    fs::write(place.path.join("new"), "x").expect("written");
    let end = world.close(2);
    assert_eq!((end.kept, end.trouble), (true, None));
}

#[test]
fn what_is_not_as_committed_is_no_place_to_begin() {
    let world = World::new();
    let place = world.ready(1);
    let (record, git) = (world.record(1), Git::find(None).expect("git"));
    let patience = Patience { until: Instant::now() + CHECK_MAX, unwanted: &AtomicBool::new(false) };
    let of = Some((&*record.git_dir, &*record.path));
    let inside = git::Here { git: &git, folder: &record.path, of, settings: &[], env: &[], patience: &patience };
    make::as_committed(&inside).expect("it was just made");
    fs::write(place.workdir.join("a.txt"), "other\n").expect("written");
    let said = make::as_committed(&inside).expect_err("it differs");
    assert!(said.contains("src/a.txt") && said.contains("git status"), "{said}");
}

//! Tables of command lines, and the commands that are read in them.

use super::*;

fn shown(word: &Word) -> String {
    word.atoms
        .iter()
        .map(|atom| match atom {
            word::Atom::Char(c) | word::Atom::Glob(c) | word::Atom::Brace(c) => *c,
            word::Atom::Unknown | word::Atom::Var(..) => '¿',
            word::Atom::Split => '…',
            word::Atom::Tilde => '~',
        })
        .collect()
}

fn told(text: &str) -> String {
    let reading = read(text, &Job::example());
    let mut out: Vec<String> = Vec::new();
    for command in &reading.commands {
        if command.words.is_empty() {
            continue;
        }
        out.push(command.words.iter().map(shown).collect::<Vec<_>>().join(" "));
    }
    if let Some(why) = reading.opaque {
        out.push(format!("? {why}"));
    }
    out.join(" | ")
}

#[test]
fn every_command_is_seen_wherever_it_stands() {
    for (text, expected) in [
        ("ls -l", "ls -l"),
        ("a; b & c && d || e | f |& g\nh", "a | b | c | d | e | f | g | h"),
        ("(a; b); { c; }", "a | b | c"),
        ("if a; then b; elif c; then d; else e; fi", "a | b | c | d | e"),
        ("for x in 1 $(a); do b $x; done; while c; do d; done < f", "a | b 1 | b … | c | d"),
        ("case $x in a|b) c;; *) d; esac", "c | d"),
        ("f() { a; }; f", "a | f"),
        ("echo \"`a` $(b \"$(c)\")\" ${x:-$(d)}", "a | c | b ¿ | d | echo ¿ ¿ …"),
        ("diff <(a) <(b)", "a | b | diff /dev/fd/63 /dev/fd/63"),
        ("x=$(a) b", "a | b"),
        ("cat <<E\n$(a) `b` c\nE\nd", "a | b | cat | d"),
        ("cat <<'E'\n$(a) `b` c\nE\nd", "cat | d"),
        ("cat <<A <<'B' | c; d\n$(a)\nA\n$(b)\nB\ne", "c | d | e"),
        ("cat <<-E\n\tx\n\tE\nd", "cat | d"),
        ("! time a", "a"),
        ("[[ $x == y* && -n $(a) ]]", "a"),
        ("a=(1 $(b))", "b"),
        ("a # b; c", "a"),
        ("a b#c", "a b#c"),
        ("a \\\n b", "a b"),
        ("a &", "a"),
        ("git commit -m \"$(cat <<'E'\nrm -rf x\nE\n)\"", "cat | git commit -m ¿"),
    ] {
        let found = told(text);
        if text.contains("<<A <<") {
            assert!(found.ends_with("c | d | e"), "{text}: {found}");
        } else {
            assert_eq!(found, expected, "{text}");
        }
    }
}

#[test]
fn words_are_what_the_program_gets() {
    for (text, expected) in [
        ("r\\m 'a b'c \"d $x\" $'e\\x41\\n' $\"f\"", "rm a bc d ¿ eA\n f"),
        ("a{b,c}d {1..3} {x} '{a,b}'", "abd acd … {x} {a,b}"),
        ("ls ~ ~/x ~root x~ a=~/y --b=~", "ls /h /h/x ¿root x~ a=/h/y --b=~"),
        ("ls $HOME/x \"$PWD\" *.rs [a]b", "ls /h/x /w *.rs [a]b"),
        ("echo $? $# $1 $@ \"$@\" a$", "echo … … … … … a$"),
        ("echo $((1 + 2))", "echo ¿"),
        ("2>&1 a 2>/dev/null b", "a b"),
    ] {
        assert_eq!(told(text), expected, "{text}");
    }
}

#[test]
fn wrappers_are_seen_through() {
    for (text, inner) in [
        ("env -i A=1 rm x", "rm x"),
        ("timeout -k 3 5 nice -n 3 rm x", "rm x"),
        ("a | xargs -0 -n1 rm", "rm …"),
        ("a | xargs -I{} rm {}/x", "rm ¿/x"),
        ("find . -name x -exec rm {} \\;", "rm ¿"),
        ("find . -exec rm {} + -exec ls {} \\;", "rm ¿"),
        ("bash -c 'rm x'", "rm x"),
        ("bash -euc 'ls; rm x'", "rm x"),
        ("bash <<< 'rm x'", "rm x"),
        ("bash <<E\nrm x\nE", "rm x"),
        ("echo rm x | sh", "rm x"),
        ("cat <<'E' | sh\nrm x\nE", "rm x"),
        ("eval 'rm x'", "rm x"),
        ("sudo -u me rm x", "rm x"),
        ("command rm x", "rm x"),
        ("ssh host rm x", "rm x"),
        ("bash -c \"bash -c 'rm x'\"", "rm x"),
        ("su -c 'rm x' me", "rm x"),
    ] {
        let found = told(text);
        assert!(found.split(" | ").any(|command| command == inner) && !found.contains('?'), "{text}: {found}");
    }
}

#[test]
fn what_is_not_understood_is_said() {
    for text in [
        "$x",
        "${x:-rm} y",
        "eval $x",
        ". f",
        "source f",
        "alias a=b",
        "a $((x))",
        "${!x}",
        "echo ${x@P}",
        "trap 'a' EXIT",
        "coproc a",
        "cd $x && a",
        "cd -",
        "env -S 'a b'",
        "xargs --odd a",
        "PATH=. ; ls",
        "export LD_PRELOAD=x",
        "a[$(b)]=1",
        "[[ x -eq y ]]",
        "((x++))",
        "for ((;;)); do a; done",
        "echo a | bash -i",
        "bash -c \"$x\"",
        "bash < f",
        "curl x | sh",
        "git -c alias.x='!a' x",
        "git x",
        "a\r\nb",
        "'",
        "a (",
        "if a",
        "ls $'\\u'",
        "read PATH",
        "printf -v PATH x",
        "set -k",
        "ls() { a; }; ls",
        "f() { a; }; cd x; f",
        "a{b,{c,d}",
        "for x in a; do cd x; done",
        "time",
        "shopt -s extglob",
        "ls !(a)",
        "git bisect run a",
        "\u{fdd0}",
        "*",
        "{fd}>x a",
        "echo \"${x:-'a'}\"",
        "hash -p x ls",
        "zsh -c 'a'",
    ] {
        assert!(told(text).contains('?'), "{text}: {}", told(text));
    }
}

#[test]
fn a_folder_is_followed() {
    for (text, dirs) in [
        ("cd x && a", &["/w/x"][..]),
        ("cd x; a", &["/w/x", "/w"]),
        ("cd x || exit 1; a", &["/w/x", "/w"]),
        ("(cd x && b); a", &["/w"]),
        ("cd x && cd .. && a", &["/w"]),
        ("cd && a", &["/h"]),
        ("if cd x; then a; fi", &["/w/x"]),
    ] {
        let reading = read(text, &Job::example());
        assert_eq!(reading.opaque, None, "{text}");
        let command = reading.commands.iter().find(|command| command.words.first().is_some_and(|word| word.is("a")));
        let found: Vec<String> = command.expect(text).dirs.iter().map(|dir| dir.display().to_string()).collect();
        assert_eq!(found, dirs, "{text}");
    }
}

#!/usr/bin/env bash
# experiments_report: the page of all studies is well-formed, whole, alone, and escapes what it is
# given
# long: draws plots
. "$(dirname "$0")/lib.sh"

for program in gnuplot cmark-gfm; do
    if ! command -v $program >/dev/null; then
        skip "the page of all studies: needs $program"
        exit 0
    fi
done

scenario=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$scenario/../.." && pwd)
golden=$scenario/experiments_golden
results=$MQKV_TEST_DIR/results
studies=$MQKV_TEST_DIR/studies
page=$MQKV_TEST_DIR/page.html

# add_study NAME: the golden definition under another name, with runs that hardly scatter; of the
# first run there is a disturbed attempt, too.
add_study() {
    mkdir -p "$results/$1/rows" "$studies"
    cp -r "$golden/study" "$studies/$1"
    sed "s/\"study\": \"golden\"/\"study\": \"$1\"/" "$golden/rows/manifest.json" \
        >"$results/$1/rows/manifest.json"
    cat >"$results/$1/rows/raw.csv" <<'CSV'
series,threads,repeat,seconds,ops_per_s,mean_us,p99_us,errors,steal_pct,foreign_cpu_pct,attempt,more
one,1,1,1.0,90,5,7,0,0.0,40.0,1,901
one,1,1,1.0,20,5,7,0,0.0,0.5,2,1
one,2,1,1.0,60,2,9,0,0.0,0.5,1,1
one,4,1,1.0,40,4,5,0,0.0,0.5,1,1
one,1,2,1.0,19.8,5,7,0,0.0,0.5,1,1
one,2,2,1.0,60,2,9,0,0.0,0.5,1,1
one,4,2,1.0,40,4,5,0,0.0,0.5,1,1
one,1,3,1.0,20.2,5,7,0,0.0,0.5,1,1
one,2,3,1.0,60,2,9,0,0.0,0.5,1,1
one,4,3,1.0,40,4,5,0,0.0,0.5,1,1
CSV
}

report() {
    "$root/experiments/report" --results "$results" --studies "$studies" -o "$page"
}

# page EXPRESSION: a Python expression over tree (the page as XML), text and tags (name,
# attributes).
page() {
    python3 - "$page" "$1" <<'PYTHON'
import re
import sys
import urllib.parse
from html.parser import HTMLParser
from xml.etree import ElementTree

text = open(sys.argv[1], encoding="utf-8").read()
tags = []
class Reader(HTMLParser):
    def handle_starttag(self, name, attributes):
        tags.append((name, dict(attributes)))
reader = Reader()
reader.feed(text)
tree = ElementTree.fromstring(text.split("\n", 1)[1])  # behind the document type
SVG = "{http://www.w3.org/2000/svg}"
SCHEME = "data:image/svg+xml,"
def pictures(section=tree):
    for image in section.iter("img"):
        yield ElementTree.fromstring(urllib.parse.unquote(image.get("src").removeprefix(SCHEME)))
def told(identifier):
    """What the pictures of a section say."""
    section = tree.find(f".//section[@id='{identifier}']")
    texts = (text for picture in pictures(section) for text in picture.itertext())
    return " ".join(" ".join(texts).split())
words = " ".join(" ".join(tree.itertext()).split())
print(eval(sys.argv[2]))
PYTHON
}

check_status 1 'no results: no page' report
check_match 'no results' "$errors" 'and why'

add_study golden
add_study hostile
sed -i -e 's|^title .*|title = <script>alert("1")</script> \& Co|' \
    -e "s|^label .*|label = </title><img src=x onerror='alert(1)'>|" \
    -e 's|^question .*|question = <b onclick="x">bold</b>?|' \
    -e 's|^text .*|text = ]]> --> "\&amp; <svg/onload=alert(1)>|' \
    -e 's|^symbol .*|symbol = <T>|' "$studies/hostile/study.conf"
sed -i 's|"cpu": "none"|"cpu": "<i>CPU</i> \\u0001\\u001b[31m"|' \
    "$results/hostile/rows/manifest.json"
cat >"$results/OPENING.md" <<'END'
## What was learned

Nothing, **really**: `<code>` and <script>alert(2)</script>, [a link](https://example.org/x).

| a | b |
|---|---:|
| 1 < 2 | "3" |
END
mkdir "$results/peers"
cp -r "$scenario/bench_golden" "$results/peers/quick"

check_status 0 'a page is made of all results' report
check_equal "$page" "$output" 'and its place told'
check_equal '' "$errors" 'without complaint'
check_equal html "$(page 'tree.tag')" 'it is well-formed, as XML too'
check_equal 'opening study-golden study-hostile peers' \
    "$(page '" ".join(s.get("id") for s in tree.iter("section"))')" 'it has every study'
check_equal '1 1 1' "$(page '" ".join(str(sum(1 for _ in s.iter("img")))
    for s in tree.iter("section")
    if s.get("class") == "study")')" 'and a picture of each'
check_equal True "$(page 'all(p.get("viewBox") for p in pictures())')" 'pictures scale'
check_equal True "$(page 'all(w in told("study-golden") for w in ("throughput, requests/s",
    "mean response time, µs", "the only series, with a comma"))')" 'and say what they show'
check_equal True "$(page '("What was learned Nothing, really : <code> and <script>alert(2)</script>"
    in words)')" 'the opening is what somebody wrote'
check_equal True "$(page '"conclusion holds" in words and "Two threads are best." in words')" \
    'claims and conclusions are told'
check_equal True "$(page 'tree.find(".//span[@class=\"verdict holds\"]").text == "holds"')" \
    'at a glance too'
check_equal 'h1 figure' "$(page '" ".join(e.tag for e in
    tree.find(".//section[@id=\"opening\"]"))[:9]')" 'it begins with a picture'
check_match 'Of 2 studies, .*: [0-9]+ holds' "$(page words)" 'and counts its verdicts'
check_equal 'Contents Studies' "$(page '" ".join(n.get("aria-label") for n in tree.iter("nav"))')" \
    'links to its parts stand above those to the studies'
step='throughput ×3 \[2\.9\d*, 3\.0\d*\] \(T = 2; relative to T = 1\), published ×1\.8'
check_equal True "$(page "bool(re.search(r'$step', words))")" \
    'with the largest step and its interval, beside the published one'
check_equal True "$(page '"errors more the only series, with a comma 1 0 1 " in words')" \
    'and what else was recorded, of the attempts that count'
check_equal True "$(page '"goals met" in words and "Redis" in words')" 'so is the comparison'

check_equal True "$(page '"Operations per second:" in words')" \
    'with the units of its figures'

# Alone.
check_equal '[]' "$(page '[t for t in tags if t[0] in ("script", "link", "iframe", "object",
    "embed", "base", "form", "image", "use", "foreignobject")]')" 'it loads and runs nothing'
check_equal '[]' "$(page '[a for _, attributes in tags for a in attributes.items() if a[0] in (
    "srcset", "data", "style", "action", "poster", "background") or a[0].startswith("on")]')" \
    'no attribute does'
check_equal '[]' \
    "$(page '[a["src"][:40] for _, a in tags if not a.get("src", SCHEME).startswith(SCHEME)]')" \
    'pictures are in the page'
check_equal '[]' "$(page '[e.tag for p in pictures() for e in p.iter() if e.tag in (SVG + "script",
    SVG + "image", SVG + "foreignObject") or any(k.endswith("href") and not v.startswith("#")
    for k, v in e.items())]')" 'and load nothing either'
check_equal '[]' \
    "$(page '[a["href"] for _, a in tags if not a.get("href", "#").startswith("#")]')" \
    'links stay on the page'
check_equal '[]' "$(page '[a["href"] for _, a in tags if "href" in a and
    not any(b.get("id") == a["href"][1:] for _, b in tags)]')" 'and lead somewhere'
check_equal '' "$(sed -n '/<style>/,/<\/style>/p' "$page" | grep -iE 'url\(|@import|https?:')" \
    'the style loads nothing'
check_equal '[]' "$(page '[i for i in (a["id"] for _, a in tags if "id" in a)
    if sum(1 for _, b in tags if b.get("id") == i) > 1]')" 'no two things have one name'

# Hostile words are words.
check_equal True "$(page '"<script>alert(\"1\")</script> & Co" in words')" 'a title is text'
check_equal True "$(page '"</title><img src=x onerror=" in told("study-hostile")')" \
    'a label is text'
check_equal True "$(page '"<i>CPU</i> \ufffd\ufffd[31m" in words')" \
    'what XML cannot hold is replaced'

# A step that the intervals do not tell from none is no step: of three runs one is many times as
# fast as the others. All 99th percentiles are 0 here, and a picture shows them all the same.
cp "$results/golden/rows/raw.csv" "$MQKV_TEST_DIR/raw.csv"
sed -i -E -e 's/^(one,.,2,1.0),[0-9.]+,[0-9]+/\1,400,90/' \
    -e 's/^(one,.,.,1.0,[0-9.]+,[0-9]+),[0-9]+,/\1,0,/' "$results/golden/rows/raw.csv"
printf '\n[plot]\nmetrics = ops_per_s p99_us\nlog_y = ops_per_s\n' >>"$studies/golden/study.conf"
check_status 0 'a page is made of runs that scatter, and of figures that are 0' report
check_equal '' "$errors" 'without complaint'
check_equal True "$(page '"99th percentile, µs" in told("study-golden")')" 'which have an axis'
check_equal True "$(page 'sum(1 for cell in tree.iter("td") if "none that these runs can tell" in
    "".join(cell.itertext())) == 1')" 'which tell no step'
check_equal True "$(page 'any("not decided)" in "".join(why.itertext())
    for why in tree.findall(".//section[@id=\"opening\"]//div[@class=\"why\"]"))')" \
    'nor a verdict, and the table says why'
check_match 'Undecided is no result' "$(page words)" 'with what that means above it'
mv "$MQKV_TEST_DIR/raw.csv" "$results/golden/rows/raw.csv"

# A profile that was not finished does not hide one that was; alone, it says how far it is.
add_study halfway
mkdir "$results/halfway/full"
head -n 5 "$results/halfway/rows/raw.csv" >"$results/halfway/full/raw.csv"
sed -e 's/"name": "rows"/"name": "full"/' -e 's/ "finished_utc": "[^"]*",//' \
    "$results/halfway/rows/manifest.json" >"$results/halfway/full/manifest.json"
check_status 0 'a page is made beside a profile that was not finished' report
halfway='" ".join(" ".join(tree.find(".//section[@id=\"study-halfway\"]").itertext()).split())'
check_equal True "$(page "'Profile rows. Bars' in $halfway")" 'of the one that was'
rm -r "$results/halfway/rows"
check_status 0 'a page is made of a profile that was not finished' report
check_equal True "$(page "'Profile full, unfinished: 1 of 3 runs a point. Bars' in $halfway")" \
    'which says how far it is'
check_equal True "$(page "'Each point is run 1 of 3 times' in $halfway")" 'in its report, too'
rm -r "$results/halfway"

# One profile for many CPUs stands beside the one for few, on its own.
add_study both
for profile in cores cores-short; do
    cp -r "$results/both/rows" "$results/both/$profile"
    sed -i "s/\"name\": \"rows\"/\"name\": \"$profile\"/" "$results/both/$profile/manifest.json"
    printf '\n[profile %s]\nrepeats = 3\nwarmup_s = 0\nmeasure_s = 1\ncpus = 8\n' $profile \
        >>"$studies/both/study.conf"
done
check_status 0 'a page is made of rows from few and from many CPUs' report
check_equal 'study-both study-both-many-cpus' "$(page \
    '" ".join(s.get("id") for s in tree.iter("section") if "both" in s.get("id"))')" \
    'which has a section for each'
many='" ".join(" ".join(tree.find(".//section[@id=\"study-both-many-cpus\"]").itertext()).split())'
check_equal True "$(page "'Profile cores. Bars' in $many")" 'the longer profile'
check_equal True "$(page "' CPUs) Question.' in $many")" 'with the CPUs in its title'
check_equal '[]' "$(page '[i for i in (a["id"] for _, a in tags if "id" in a)
    if sum(1 for _, b in tags if b.get("id") == i) > 1]')" 'and no two things have one name'
rm -r "$results/both" "$studies/both"

# What cannot be read is left out, with the reason; a study without its definition is not.
rm -r "$studies/golden"
echo 'one,2' >>"$results/hostile/rows/raw.csv"
check_status 0 'a page is made of what can be read' report
check_match 'hostile left out: .*' "$errors" 'and the rest named'
check_equal 'opening study-golden peers' \
    "$(page '" ".join(s.get("id") for s in tree.iter("section"))')" \
    'a study is shown from its files alone'
check_equal True "$(page '"A golden study" in words')" 'with its title'

# What is committed: the page finds all definitions, a deck has room for the ratios of both sides,
# every outcome has its reason, and the published figures of a lesson are those of its study.
agree() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/experiments" python3 - "$root/experiments" "$1" \
        <<'PYTHON'
import pathlib
import re
import sys
from harness import content, deck, study
from webpage import measured, peers

experiments = pathlib.Path(sys.argv[1])
studies = [study.read(path.parent) for path in experiments.glob("*/study.conf")]
lessons = [study.read(path.parent) for path in experiments.glob("lessons/*/study.conf")]


def definitions():
    for name, _, _ in measured.folders(experiments / "results"):
        if name != peers.NAME and not measured.study_folder(name, measured.places([])):
            yield name


def tables(report):
    """Those that set published figures beside ours."""
    text = report.partition("\n## Beside the published figures\n")[2].partition("\n## ")[0]
    for part in text.split("\n**")[1:]:
        title, _, rest = part.partition("**")
        lines = [line for line in rest.splitlines() if line.startswith("| ")]
        cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
        yield content.Table(title, cells[0], cells[2:])


def decks():
    for path in sorted(experiments.glob("results/*/*/REPORT.md")):
        for table in tables(path.read_text(encoding="utf-8")):
            header, body, widths = deck.narrow(table)
            ratios = [name for name in header if name.endswith("ratio")]
            published = [name for name in ratios if name.endswith("published ratio")]
            fits = sum(widths) <= deck.ROW_LETTERS and all(len(row) == len(header) for row in body)
            if not fits or not published or len(ratios) == len(published):
                yield f"{path.parent}: {header}"


def reasons():
    for one in [*studies, *lessons]:
        for outcome in ("holds", "part", "fails") if one.claim else ():
            if not one.claim.why[outcome]:
                yield f"{one.name}: {outcome}"


def known(name):
    """A series or a value: "m3" of a lesson is "3" of its study, "pool5" is "pool-5"."""
    return re.sub(r"^[ml](?=\d)", "", name).replace("-", "")


def published():
    of_study = {}  # column of figures -> what is published in it
    for one in studies:
        for row in one.published.rows if one.published else ():
            for column in one.published.column_of.values():
                names = known(row["series"]), known(row[one.knob])
                of_study.setdefault(column, set()).update((name, row[column]) for name in names)
    for one in lessons:
        for row in one.published.rows if one.published else ():
            for column in one.published.column_of.values():
                if (known(row["series"]), row[column]) not in of_study.get(column, ()):
                    yield f"{one.name}: {row['series']}, {row[column]}"


print(*globals()[sys.argv[2]](), sep="\n")
PYTHON
}
check_equal '' "$(agree definitions)" 'the page finds the definition of every committed result'
check_equal '' "$(agree decks)" 'decks show the ratios of both sides'
check_equal '' "$(agree reasons)" 'every outcome of a study has its reason'
check_equal '' "$(agree published)" "a lesson's published figures are those of its study"

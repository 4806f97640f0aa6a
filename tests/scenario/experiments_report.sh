#!/usr/bin/env bash
# experiments_report: the page of all studies is well-formed, whole, alone, and escapes what it is
# given
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

# add_study NAME: the golden rows and definition under another name.
add_study() {
    mkdir -p "$results/$1" "$studies"
    cp -r "$golden/rows" "$results/$1/rows"
    cp -r "$golden/study" "$studies/$1"
    sed -i "s/\"study\": \"golden\"/\"study\": \"$1\"/" "$results/$1/rows/manifest.json"
}

report() {
    "$root/experiments/report" --results "$results" --studies "$studies" -o "$page"
}

# page EXPRESSION: a Python expression over tree (the page as XML), text and tags (name,
# attributes).
page() {
    python3 - "$page" "$1" <<'PYTHON'
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
check_equal True "$(page '"throughput ×3 (T = 2; relative to T = 1), published ×1.8" in words')" \
    'with the largest step beside the published one'
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

# What cannot be read is left out, with the reason; a study without its definition is not.
rm -r "$studies/golden"
echo 'one,2' >>"$results/hostile/rows/raw.csv"
check_status 0 'a page is made of what can be read' report
check_match 'hostile left out: .*' "$errors" 'and the rest named'
check_equal 'opening study-golden peers' \
    "$(page '" ".join(s.get("id") for s in tree.iter("section"))')" \
    'a study is shown from its files alone'
check_equal True "$(page '"A golden study" in words')" 'with its title'

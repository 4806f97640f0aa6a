package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

func verdict(notes ...note) porcupine.CheckResult {
	for i := range notes {
		if notes[i].EndNs == 0 { // one after the other
			notes[i].StartNs, notes[i].EndNs = int64(10*i), int64(10*i+5)
		}
	}
	return porcupine.CheckOperationsTimeout(model, byKey(notes)[0], time.Minute)
}

func put(value int64, version uint64) note {
	return note{Call: "put", Input: value, Status: statusOK, Version: version}
}

func get(value int64, version uint64) note {
	return note{Call: "get", Status: statusOK, Found: true, Output: value, Version: version}
}

var absent = note{Call: "get", Status: statusNotFound}

func unknown(n note) note {
	n.Status, n.Version = statusUnknown, 0
	return n
}

func at(start, end int64, n note) note {
	n.StartNs, n.EndNs = start, end
	return n
}

func TestVerdicts(t *testing.T) {
	remove := note{Call: "delete", Status: statusOK, Version: 9}
	lost := unknown(put(2, 0))
	for _, c := range []struct {
		what  string
		legal bool
		notes []note
	}{
		{"what was put is read", true, []note{put(1, 5), get(1, 5)}},
		{"another value is read", false, []note{put(1, 5), get(2, 5)}},
		{"another version is read", false, []note{put(1, 5), get(1, 6)}},
		{"an acknowledged put is lost", false, []note{put(1, 5), absent}},
		{"a stale read", false, []note{put(1, 5), put(2, 6), get(1, 5)}},
		{"concurrent puts, either order", true, []note{at(0, 9, put(1, 6)), at(1, 8, put(2, 5)), at(10, 12, get(1, 6))}},
		{"concurrent puts, the order of the versions", false, []note{at(0, 9, put(1, 6)), at(1, 8, put(2, 5)), at(10, 12, get(2, 5))}},
		{"a version is given twice", false, []note{put(1, 5), put(2, 5)}},
		{"a version falls over a deletion", false, []note{put(1, 5), remove, put(1, 9)}},
		{"a version grows over a deletion", true, []note{put(1, 5), remove, put(1, 10)}},
		{"deletion of nothing", false, []note{remove}},
		{"a lost answer: executed", true, []note{put(1, 5), lost, get(2, 6)}},
		{"a lost answer: never executed", true, []note{put(1, 5), lost, get(1, 5)}},
		{"a lost answer: executed late", true, []note{put(1, 5), lost, get(1, 5), get(2, 7)}},
		{"a lost answer: executed and undone", false, []note{put(1, 5), lost, get(2, 6), get(1, 5)}},
		{"a lost answer: its version is above", false, []note{put(1, 5), lost, get(2, 4)}},
		{"a lost answer: before it was sent", false, []note{get(2, 4), lost}},
		{"a lost add", true, []note{put(1, 5), unknown(note{Call: "add", Input: 3}), get(4, 6)}},
		{"a lost delete", true, []note{put(1, 5), unknown(remove), absent}},
		{"if absent, and it was there", false, []note{put(1, 5), {Call: "put", If: "absent", Input: 2, Status: statusOK, Version: 6}}},
		{"if absent, and it was not there", false, []note{{Call: "put", If: "absent", Status: statusExists}}},
		{"if present, and it was not there", false, []note{{Call: "put", If: "present", Status: statusOK, Version: 6}}},
		{"if version", true, []note{put(1, 5), {Call: "put", If: "version", IfVersion: 5, Input: 2, Status: statusOK, Version: 6}, get(2, 6)}},
		{"if another version", false, []note{put(1, 5), {Call: "put", If: "version", IfVersion: 4, Status: statusOK, Version: 6}}},
		{"a mismatch of the same version", false, []note{put(1, 5), {Call: "put", If: "version", IfVersion: 5, Status: statusMismatch}}},
		{"two winners of one version", false, []note{put(1, 5),
			at(20, 30, note{Call: "put", If: "version", IfVersion: 5, Input: 2, Status: statusOK, Version: 6}),
			at(20, 30, note{Call: "delete", If: "version", IfVersion: 5, Status: statusOK, Version: 7})}},
		{"a lost update of add", false, []note{at(0, 9, note{Call: "add", Input: 1, Status: statusOK, Output: 1, Version: 1}),
			at(0, 9, note{Call: "add", Input: 1, Status: statusOK, Output: 1, Version: 2})}},
		{"exchange gives another value", false, []note{put(1, 5), {Call: "exchange", Input: 2, Status: statusOK, Found: true, Output: 3, Version: 6}}},
		{"exchange finds nothing", false, []note{put(1, 5), {Call: "exchange", Input: 2, Status: statusOK, Version: 6}}},
		{"an answer that no call has", false, []note{{Call: "get", Status: statusExists}}},
	} {
		want := porcupine.Illegal
		if c.legal {
			want = porcupine.Ok
		}
		if got := verdict(c.notes...); got != want {
			t.Errorf("%s: %s, not %s", c.what, got, want)
		}
	}
}

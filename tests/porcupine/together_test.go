package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// do is a call that was done: steps in pairs with what they answered.
func do(start, end int64, guards []guard, then []part, results ...result) transacted {
	return transacted{Call: "transact", StartNs: start, EndNs: end, Guards: guards, Then: then, Outcome: "done", Results: results}
}

func lose(t transacted) transacted {
	t.Outcome, t.Results = "unknown", nil
	return t
}

func TestVerdictsOnSeveralKeys(t *testing.T) {
	puts := func(key, value string) part { return part{Call: "put", Key: key, Value: value} }
	gets := func(key string) part { return part{Call: "get", Key: key} }
	adds := func(key string, delta int64) part { return part{Call: "add", Key: key, Delta: delta} }
	wrote := func(version uint64) result { return result{Status: statusOK, Version: version} }
	has := func(value string, version uint64) result {
		return result{Status: statusOK, Value: value, Version: version}
	}
	summed := func(number int64, version uint64) result {
		return result{Status: statusOK, Number: number, Version: version}
	}
	none := result{Status: statusNotFound}
	at := func(key string, version uint64) guard { return guard{Kind: "version", Key: key, Version: version} }
	isAbsent := func(key string) guard { return guard{Kind: "absent", Key: key} }

	start := do(0, 5, nil, []part{puts("x", "1"), puts("y", "1")}, wrote(1), wrote(7))
	both := do(10, 20, nil, []part{puts("x", "2"), puts("y", "2")}, wrote(2), wrote(8))
	look := func(s, e int64, x, y result) transacted { return do(s, e, nil, []part{gets("x"), gets("y")}, x, y) }
	otherwise := do(30, 35, []guard{at("x", 1), isAbsent("y")}, []part{puts("x", "9")})
	otherwise.Outcome, otherwise.Else, otherwise.Results = "else", []part{puts("z", "1")}, []result{wrote(1)}
	second := otherwise
	second.Guard = 1
	fails := func(number int64, bound int64) transacted {
		f := do(30, 35, nil, []part{puts("x", "9"), {Call: "add", Key: "y", Delta: number, HasMin: true, Min: bound}})
		f.Outcome, f.Status, f.Part, f.At = "failed", "out_of_bounds", "then", 1
		return f
	}
	for _, c := range []struct {
		what  string
		legal bool
		calls []transacted
	}{
		{"both are read", true, []transacted{start, both, look(30, 35, has("2", 2), has("2", 8))}},
		{"a moment before, and one after", true, []transacted{start, both, look(11, 12, has("1", 1), has("1", 7)), look(13, 14, has("2", 2), has("2", 8))}},
		{"a torn read", false, []transacted{start, both, look(11, 19, has("2", 2), has("1", 7))}},
		{"two single reads, torn", false, []transacted{start, both,
			do(11, 12, nil, []part{gets("x")}, has("2", 2)), do(13, 14, nil, []part{gets("y")}, has("1", 7))}},
		{"a stale read", false, []transacted{start, both, look(30, 35, has("1", 1), has("1", 7))}},
		{"a read that sees its own writes", false, []transacted{start, do(30, 35, nil, []part{puts("x", "2"), gets("x")}, wrote(2), has("2", 2))}},
		{"a read of what was before its own writes", true, []transacted{start, do(30, 35, nil, []part{puts("x", "2"), gets("x")}, wrote(2), has("1", 1))}},
		{"write skew", false, []transacted{
			do(0, 9, []guard{isAbsent("y")}, []part{puts("x", "1")}, wrote(1)), do(0, 9, []guard{isAbsent("x")}, []part{puts("y", "1")}, wrote(1))}},
		{"no skew: one after the other", true, []transacted{
			do(0, 9, []guard{isAbsent("y")}, []part{puts("x", "1")}, wrote(1)), do(0, 9, []guard{at("x", 1)}, []part{puts("y", "1")}, wrote(1))}},
		{"lost update", false, []transacted{start,
			do(10, 20, []guard{at("x", 1)}, []part{puts("x", "2")}, wrote(2)), do(10, 20, []guard{at("x", 1)}, []part{puts("x", "3")}, wrote(3))}},
		{"lost sum", false, []transacted{do(0, 9, nil, []part{adds("x", 1)}, summed(1, 1)), do(0, 9, nil, []part{adds("x", 1)}, summed(1, 2))}},
		{"a guard of a version that was not there", false, []transacted{start, do(30, 35, []guard{at("x", 9)}, []part{puts("y", "3")}, wrote(9))}},
		{"a guard of a value", true, []transacted{start, do(30, 35, []guard{{Kind: "value", Key: "x", Value: "1"}}, []part{puts("y", "3")}, wrote(9))}},
		{"a guard of another value", false, []transacted{start, do(30, 35, []guard{{Kind: "value", Key: "x", Value: "2"}}, []part{puts("y", "3")}, wrote(9))}},
		{"else, though the guard holds", false, []transacted{start, otherwise}},
		{"else, by the second guard", true, []transacted{start, second, do(40, 45, nil, []part{gets("z")}, has("1", 1))}},
		{"else, but the other list was done", false, []transacted{start, second, do(40, 45, nil, []part{gets("x")}, has("9", 2))}},
		{"a bound that does not hold", true, []transacted{start, fails(-2, 0), look(40, 45, has("1", 1), has("1", 7))}},
		{"a bound that holds", false, []transacted{start, fails(-1, 0)}},
		{"half of what failed", false, []transacted{start, fails(-2, 0), look(40, 45, has("9", 2), has("1", 7))}},
		{"a lost answer: all of it", true, []transacted{start, lose(both), look(30, 35, has("2", 3), has("2", 9))}},
		{"a lost answer: nothing of it", true, []transacted{start, lose(both), look(30, 35, has("1", 1), has("1", 7))}},
		{"a lost answer: late", true, []transacted{start, lose(both), look(30, 35, has("1", 1), has("1", 7)), look(40, 45, has("2", 3), has("2", 9))}},
		{"a lost answer: half of it", false, []transacted{start, lose(both), look(30, 35, has("2", 3), has("1", 7)), do(40, 41, nil, []part{puts("x", "3")}, wrote(5))}},
		{"a lost answer: undone", false, []transacted{start, lose(both), look(30, 35, has("2", 3), has("2", 9)), look(40, 45, has("1", 1), has("1", 7))}},
		{"an exchange", true, []transacted{start, do(30, 35, nil, []part{gets("x"), puts("x", "2")}, has("1", 0), wrote(2))}},
		{"an exchange that finds another value", false, []transacted{start, do(30, 35, nil, []part{gets("x"), puts("x", "2")}, has("3", 0), wrote(2))}},
		{"a version that falls", false, []transacted{start, do(30, 35, nil, []part{puts("x", "2")}, wrote(1))}},
		{"nothing is there", true, []transacted{look(0, 5, none, none)}},
		{"a delete of nothing", false, []transacted{do(0, 5, nil, []part{{Call: "delete", Key: "x"}}, wrote(1))}},
		{"an append", true, []transacted{start, do(10, 20, nil, []part{{Call: "append", Key: "x", Value: "7"}}, summed(2, 2)), do(30, 35, nil, []part{gets("x")}, has("17", 2))}},
		{"an append to another value", false, []transacted{start, do(10, 20, nil, []part{{Call: "append", Key: "x", Value: "7"}}, summed(3, 2))}},
	} {
		keys, err := numbered(c.calls)
		if err != nil {
			t.Fatal(err)
		}
		want := porcupine.Illegal
		if c.legal {
			want = porcupine.Ok
		}
		if got := porcupine.CheckOperationsTimeout(together(keys), operationsOf(c.calls), time.Minute); got != want {
			t.Errorf("%s: %s, not %s", c.what, got, want)
		}
	}
}

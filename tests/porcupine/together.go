package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/anishathalye/porcupine"
)

// A transacted is a line of a history over several keys: a call, as the transaction that it amounts to
// (tests/history/transaction_note.h).
type transacted struct {
	Client  int      `json:"client"`
	Round   int      `json:"round"`
	Call    string   `json:"call"`
	StartNs int64    `json:"start_ns"`
	EndNs   int64    `json:"end_ns"`
	Guards  []guard  `json:"guards"`
	Then    []part   `json:"then"`
	Else    []part   `json:"else"`
	Outcome string   `json:"outcome"` // done, else, failed, unknown
	Status  string   `json:"status"`  // of failed
	Part    string   `json:"part"`    // of failed: then, else
	At      int      `json:"at"`      // of failed: the step
	Guard   int      `json:"guard"`   // of else: the first that did not hold
	Results []result `json:"results"`
}

type guard struct {
	Kind    string `json:"kind"` // version, present, absent, value
	Key     string `json:"key"`
	Version uint64 `json:"version"`
	Value   string `json:"value"`
}

type part struct {
	Call   string `json:"call"` // get, exists, put, delete, add, append, touch
	Key    string `json:"key"`
	Value  string `json:"value"`
	Delta  int64  `json:"delta"`
	HasMin bool   `json:"has_min"`
	Min    int64  `json:"min"`
}

type result struct {
	Status  string `json:"status"`
	Value   string `json:"value"`
	Version uint64 `json:"version"` // 0: not told
	Number  int64  `json:"number"`
}

// entry is what a key is, as `state` has it, with a text for a value.
type entry struct {
	present bool
	value   string
	version uint64 // 0: given by a call whose answer was lost; above floor all the same
	floor   uint64 // the highest version that was told so far
}

func (e entry) mayHave(version uint64) bool {
	return e.present && (e.version == version || (e.version == 0 && version > e.floor))
}

// tell makes the version the entry's, if it may be.
func (e *entry) tell(version uint64) bool {
	if version == 0 {
		return e.present
	}
	if !e.mayHave(version) {
		return false
	}
	e.version, e.floor = version, version
	return true
}

const maxKeys = 8

// store has the entries of all keys; it is compared by ==.
type store [maxKeys]entry

// holds says whether the guard can hold.
func (s *store) holds(g guard, keys map[string]int) bool {
	e := s[keys[g.Key]]
	switch g.Kind {
	case "version":
		return (g.Version == 0 && !e.present) || (g.Version != 0 && e.mayHave(g.Version))
	case "present":
		return e.present
	case "absent":
		return !e.present
	}
	return e.present && e.value == g.Value
}

// sum is what an addition makes of the entry, or the status of its failure.
func sum(e entry, p part) (int64, string) {
	number := int64(0)
	if e.present {
		var err error
		if number, err = strconv.ParseInt(e.value, 10, 64); err != nil {
			return 0, "not_a_number"
		}
	}
	total := number + p.Delta
	if (p.Delta > 0 && total < number) || (p.Delta < 0 && total > number) || (p.HasMin && total < p.Min) {
		return number, "out_of_bounds"
	}
	return total, statusOK
}

// failure is the status with which the step fails in this state; statusOK: with none.
func (s *store) failure(p part, keys map[string]int) string {
	if p.Call != "add" {
		return statusOK
	}
	_, status := sum(s[keys[p.Key]], p)
	return status
}

// write is what a step makes of the entry; its version is not known yet. False: it is none that writes here.
func write(e entry, p part) (entry, bool) {
	next := entry{present: true, value: e.value, floor: e.floor}
	switch p.Call {
	case "put":
		next.value = p.Value
	case "delete":
		next = entry{floor: e.floor}
		return next, e.present
	case "add":
		total, _ := sum(e, p)
		next.value = strconv.FormatInt(total, 10)
	case "append":
		if !e.present {
			next.value = ""
		}
		next.value += p.Value
	case "touch":
		return next, e.present
	default:
		return e, false
	}
	return next, true
}

// attempt executes the steps as one. Reads see what was there before. results nil: the answer was lost.
func (s store) attempt(parts []part, results []result, keys map[string]int) (bool, store) {
	for _, p := range parts {
		if s.failure(p, keys) != statusOK {
			return results == nil, s // nothing has changed
		}
	}
	if results != nil && len(results) != len(parts) {
		return false, s
	}
	after := s
	for i, p := range parts { // what reads tell counts for both
		if p.Call != "get" && p.Call != "exists" || results == nil {
			continue
		}
		k, r := keys[p.Key], results[i]
		before := s[k]
		if r.Status == statusNotFound && !before.present {
			continue
		}
		if r.Status != statusOK || !before.tell(r.Version) || (p.Call == "get" && before.value != r.Value) {
			return false, s
		}
		s[k], after[k] = before, before
	}
	for i, p := range parts {
		k := keys[p.Key]
		next, writes := write(s[k], p)
		if !writes {
			if results != nil && p.Call != "get" && p.Call != "exists" && results[i].Status != statusNotFound {
				return false, s
			}
			continue
		}
		if results != nil {
			r := results[i]
			if r.Status != statusOK || r.Version <= next.floor ||
				(p.Call == "add" && strconv.FormatInt(r.Number, 10) != next.value) ||
				(p.Call == "append" && r.Number != int64(len(next.value))) {
				return false, s
			}
			next.floor = r.Version
			if next.present {
				next.version = r.Version
			}
		}
		after[k] = next
	}
	return true, after
}

// hold takes it that the guards hold: what they tell of versions is known then.
func (s store) hold(guards []guard, keys map[string]int) (bool, store) {
	for _, g := range guards {
		if !s.holds(g, keys) {
			return false, s
		}
		if g.Kind == "version" && g.Version != 0 {
			s[keys[g.Key]].tell(g.Version)
		}
	}
	return true, s
}

// failsToHold says whether the guard may not hold: one of a version that is not known may always.
func (s *store) failsToHold(g guard, keys map[string]int) bool {
	e := s[keys[g.Key]]
	return !s.holds(g, keys) || (g.Kind == "version" && g.Version != 0 && e.version == 0)
}

func (s store) step(t transacted, keys map[string]int) (bool, store) {
	if t.Outcome == "unknown" {
		if held, after := s.hold(t.Guards, keys); held {
			_, after = after.attempt(t.Then, nil, keys)
			return true, after
		}
		_, after := s.attempt(t.Else, nil, keys)
		return true, after
	}
	if t.Outcome == "failed" && t.Part == "else" { // which guard did not hold is not told
		for t.Guard < len(t.Guards)-1 && s.holds(t.Guards[t.Guard], keys) {
			t.Guard++
		}
	}
	parts, taken := t.Then, t.Guards
	if t.Outcome == "else" || t.Part == "else" {
		if t.Guard >= len(t.Guards) || !s.failsToHold(t.Guards[t.Guard], keys) {
			return false, s
		}
		parts, taken = t.Else, t.Guards[:t.Guard]
	}
	held, s := s.hold(taken, keys)
	if !held {
		return false, s
	}
	if t.Outcome == "failed" {
		return t.At < len(parts) && s.failure(parts[t.At], keys) == t.Status, s
	}
	if t.Results == nil {
		t.Results = []result{}
	}
	return s.attempt(parts, t.Results, keys)
}

// numbered gives the keys of a history their places in the store.
func numbered(calls []transacted) (map[string]int, error) {
	keys := map[string]int{}
	number := func(key string) {
		if _, known := keys[key]; !known {
			keys[key] = len(keys)
		}
	}
	for _, t := range calls {
		for _, g := range t.Guards {
			number(g.Key)
		}
		for _, p := range append(append([]part{}, t.Then...), t.Else...) {
			number(p.Key)
		}
	}
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("%d keys, more than %d", len(keys), maxKeys)
	}
	return keys, nil
}

// together is the model of a history over several keys: all of them are one object.
func together(keys map[string]int) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return store{} },
		Step: func(from, input, _ interface{}) (bool, interface{}) {
			return from.(store).step(input.(transacted), keys)
		},
		DescribeOperation: func(input, _ interface{}) string {
			t := input.(transacted)
			return fmt.Sprintf("%s %+v then %+v else %+v: %s %s %d %d %+v", t.Call, t.Guards, t.Then, t.Else, t.Outcome,
				t.Status, t.At, t.Guard, t.Results)
		},
		DescribeState: func(s interface{}) string { return fmt.Sprintf("%+v", s.(store)) },
	}
}

func operationsOf(calls []transacted) []porcupine.Operation {
	var operations []porcupine.Operation
	for _, t := range calls {
		end := t.EndNs
		if t.Outcome == "unknown" {
			end = math.MaxInt64
		}
		operations = append(operations, porcupine.Operation{ClientId: t.Client, Input: t, Call: t.StartNs, Return: end})
	}
	return operations
}

// byRound cuts a file up into histories that have no key in common.
func byRound(calls []transacted) ([]history, error) {
	rounds := map[int][]transacted{}
	for _, t := range calls {
		rounds[t.Round] = append(rounds[t.Round], t)
	}
	var histories []history
	for round, calls := range rounds {
		keys, err := numbered(calls)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		histories = append(histories, history{fmt.Sprintf("round %d", round), together(keys), operationsOf(calls)})
	}
	return histories, nil
}

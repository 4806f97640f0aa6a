package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// note is a line of a history: a call as a client saw it (tests/history/history_note.h).
type note struct {
	Client    int    `json:"client"`
	Key       int    `json:"key"`
	Call      string `json:"call"` // get, put, delete, add, exchange
	If        string `json:"if"`   // "", absent, present, version
	IfVersion uint64 `json:"if_version"`
	Input     int64  `json:"input"`
	Status    string `json:"status"`
	Found     bool   `json:"found"`
	Output    int64  `json:"output"`
	Version   uint64 `json:"version"`
	StartNs   int64  `json:"start_ns"`
	EndNs     int64  `json:"end_ns"`
}

const (
	statusOK       = "ok"
	statusNotFound = "not_found"
	statusExists   = "exists"
	statusMismatch = "version_mismatch"
	statusUnknown  = "outcome_unknown" // executed at any time from its start on, or never
)

// state is what a key is: there or not, its value, its version.
type state struct {
	present bool
	value   int64
	version uint64 // 0: given by a write whose answer was lost; above floor all the same
	floor   uint64 // the highest version that was told so far
}

// write makes the value the key's, with the version that the answer told. False: the version is not above all
// that the key had.
func (s state) write(value int64, version uint64) (bool, state) {
	if version <= s.floor {
		return false, s
	}
	return true, state{present: true, value: value, version: version, floor: version}
}

// guess is what a write whose answer was lost makes of the key, if it is executed.
func (s state) guess(n note) state {
	holds := n.If == "" || (n.If == "absent" && !s.present) || (n.If == "present" && s.present) ||
		(n.If == "version" && s.mayHave(n.IfVersion))
	switch {
	case !holds || (n.Call == "delete" && !s.present):
		return s
	case n.Call == "delete":
		return state{floor: s.floor}
	case n.Call == "add":
		return state{present: true, value: s.value + n.Input, floor: s.floor}
	}
	return state{present: true, value: n.Input, floor: s.floor}
}

// mayHave says whether the key's version can be this one.
func (s state) mayHave(version uint64) bool {
	return s.present && (s.version == version || (s.version == 0 && version > s.floor))
}

func (s state) get(n note) (bool, state) {
	if n.Status == statusNotFound {
		return !s.present, s
	}
	if n.Status != statusOK || !n.Found || !s.mayHave(n.Version) || n.Output != s.value {
		return false, s
	}
	return true, state{present: true, value: s.value, version: n.Version, floor: n.Version}
}

func (s state) put(n note) (bool, state) {
	switch n.Status {
	case statusOK:
		if (n.If == "absent" && s.present) || (n.If == "present" && !s.present) ||
			(n.If == "version" && (!s.mayHave(n.IfVersion) || n.Version <= n.IfVersion)) {
			return false, s
		}
		return s.write(n.Input, n.Version)
	case statusExists:
		return n.If == "absent" && s.present, s
	case statusNotFound:
		return (n.If == "present" || n.If == "version") && !s.present, s
	case statusMismatch:
		return n.If == "version" && s.present && s.version != n.IfVersion, s
	}
	return false, s
}

func (s state) remove(n note) (bool, state) {
	switch n.Status {
	case statusOK:
		if !s.present || n.Version <= s.floor || (n.If == "version" && !s.mayHave(n.IfVersion)) {
			return false, s
		}
		return true, state{floor: n.Version}
	case statusNotFound:
		return !s.present, s
	case statusMismatch:
		return n.If == "version" && s.present && s.version != n.IfVersion, s
	}
	return false, s
}

func (s state) add(n note) (bool, state) {
	sum := n.Input // an absent key counts as 0: value is 0 then
	if s.present {
		sum += s.value
	}
	if n.Status != statusOK || n.Output != sum {
		return false, s
	}
	return s.write(sum, n.Version)
}

func (s state) exchange(n note) (bool, state) {
	if n.Status != statusOK || n.Found != s.present || (n.Found && n.Output != s.value) {
		return false, s
	}
	return s.write(n.Input, n.Version)
}

func step(from, input, _ interface{}) (bool, interface{}) {
	s, n := from.(state), input.(note)
	if n.Status == statusUnknown {
		return true, s.guess(n)
	}
	var possible bool
	switch n.Call {
	case "get":
		possible, s = s.get(n)
	case "put":
		possible, s = s.put(n)
	case "delete":
		possible, s = s.remove(n)
	case "add":
		possible, s = s.add(n)
	case "exchange":
		possible, s = s.exchange(n)
	}
	return possible, s
}

// model is that of one key: histories are cut up by keys, which are objects of their own.
var model = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: step,
	DescribeOperation: func(input, _ interface{}) string {
		n := input.(note)
		return fmt.Sprintf("%s %s %d: %s %d version %d", n.Call, n.If, n.Input, n.Status, n.Output, n.Version)
	},
	DescribeState: func(s interface{}) string { return fmt.Sprintf("%+v", s.(state)) },
}

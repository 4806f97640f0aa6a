// porcupine judges histories that history_load wrote: is there, for each key, one order of the calls that explains
// every answer and respects real time? The search is Porcupine's, not that of tests/history.
//
//	porcupine [-timeout 60s] [-show DIR] FILE...
//
// Prints a line for each file. Exit status 1: a history is not linearizable; 2: a file cannot be read; 3: none is
// rejected, but one was not decided in time.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

func read(path string) ([]note, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var notes []note
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var n note
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(notes)+1, err)
		}
		notes = append(notes, n)
	}
	return notes, lines.Err()
}

// byKey cuts a history up. A call of unknown fate never returns.
func byKey(notes []note) map[int][]porcupine.Operation {
	keys := map[int][]porcupine.Operation{}
	for _, n := range notes {
		end := n.EndNs
		if n.Status == statusUnknown {
			end = math.MaxInt64
		}
		keys[n.Key] = append(keys[n.Key], porcupine.Operation{ClientId: n.Client, Input: n, Call: n.StartNs, Return: end})
	}
	return keys
}

func show(directory, path string, key int, info porcupine.LinearizationInfo) {
	if directory == "" {
		return
	}
	file := filepath.Join(directory, fmt.Sprintf("%s.%d.html", filepath.Base(path), key))
	if err := porcupine.VisualizePath(model, info, file); err == nil {
		fmt.Printf("  see %s\n", file)
	}
}

// judge gives the worst result of the file's keys. Each key gets what is left of the time.
func judge(path string, notes []note, timeout time.Duration, directory string) porcupine.CheckResult {
	end := time.Now().Add(timeout)
	worst := porcupine.Ok
	keys := byKey(notes)
	for key, operations := range keys {
		left := time.Until(end)
		if left <= 0 {
			left = time.Nanosecond // 0 would be no limit
		}
		result, info := porcupine.CheckOperationsVerbose(model, operations, left)
		switch result {
		case porcupine.Illegal:
			fmt.Printf("%s: key %d is not linearizable\n", path, key)
			sort.Slice(operations, func(i, j int) bool { return operations[i].Call < operations[j].Call })
			for _, o := range operations {
				fmt.Printf("  client %d, %d .. %d: %s\n", o.ClientId, o.Call, o.Return, model.DescribeOperation(o.Input, nil))
			}
			show(directory, path, key, info)
			worst = porcupine.Illegal
		case porcupine.Unknown:
			if worst == porcupine.Ok {
				worst = porcupine.Unknown
			}
		}
	}
	return worst
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "for each history")
	directory := flag.String("show", "", "where pictures of what is rejected go")
	flag.Parse()
	words := map[porcupine.CheckResult]string{
		porcupine.Ok: "linearizable", porcupine.Illegal: "NOT LINEARIZABLE", porcupine.Unknown: "undecided"}
	status := 0
	for _, path := range flag.Args() {
		notes, err := read(path)
		if err != nil || len(notes) == 0 {
			fmt.Fprintf(os.Stderr, "%s: no history: %v\n", path, err)
			os.Exit(2)
		}
		unknown := 0
		for _, n := range notes {
			if n.Status == statusUnknown {
				unknown++
			}
		}
		started := time.Now()
		result := judge(path, notes, *timeout, *directory)
		fmt.Printf("%s: %s, %d calls on %d keys, %d of unknown fate, %.1f s\n", words[result], path, len(notes),
			len(byKey(notes)), unknown, time.Since(started).Seconds())
		if result == porcupine.Illegal {
			status = 1
		} else if result == porcupine.Unknown && status == 0 {
			status = 3
		}
	}
	os.Exit(status)
}

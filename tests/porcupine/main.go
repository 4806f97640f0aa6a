// porcupine judges histories that history_load wrote: is there, for each key, one order of the calls that explains
// every answer and respects real time? The search is Porcupine's, not that of tests/history. With -together it judges
// those of transaction_load: is there one order for all keys?
//
//	porcupine [-together] [-timeout 60s] [-show DIR] FILE...
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

// history is what is judged by itself: what was done to one object, by a model of it.
type history struct {
	name       string
	model      porcupine.Model
	operations []porcupine.Operation
}

// readLines gives the lines of a file, each of which is a JSON object.
func readLines[line any](path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []line
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one line
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(all)+1, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 && lines.Err() == nil {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return all, lines.Err()
}

// read gives the histories of a file: of each key by itself, or of each round, over all its keys.
func read(path string, together bool) ([]history, error) {
	if together {
		calls, err := readLines[transacted](path)
		if err != nil {
			return nil, err
		}
		return byRound(calls)
	}
	notes, err := readLines[note](path)
	if err != nil {
		return nil, err
	}
	var histories []history
	for key, operations := range byKey(notes) {
		histories = append(histories, history{fmt.Sprintf("key %d", key), model, operations})
	}
	return histories, nil
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

func show(directory, path string, of history, info porcupine.LinearizationInfo) {
	if directory == "" {
		return
	}
	file := filepath.Join(directory, fmt.Sprintf("%s.%s.html", filepath.Base(path), of.name))
	if err := porcupine.VisualizePath(of.model, info, file); err == nil {
		fmt.Printf("  see %s\n", file)
	}
}

// judge gives the worst result of the histories of a file. Each gets what is left of the time.
func judge(path string, histories []history, timeout time.Duration, directory string) porcupine.CheckResult {
	end := time.Now().Add(timeout)
	worst := porcupine.Ok
	for _, one := range histories {
		left := time.Until(end)
		if left <= 0 {
			left = time.Nanosecond // 0 would be no limit
		}
		result, info := porcupine.CheckOperationsVerbose(one.model, one.operations, left)
		switch result {
		case porcupine.Illegal:
			fmt.Printf("%s: %s is not linearizable\n", path, one.name)
			sort.Slice(one.operations, func(i, j int) bool { return one.operations[i].Call < one.operations[j].Call })
			for _, o := range one.operations {
				fmt.Printf("  client %d, %d .. %d: %s\n", o.ClientId, o.Call, o.Return, one.model.DescribeOperation(o.Input, nil))
			}
			show(directory, path, one, info)
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
	timeout := flag.Duration("timeout", time.Minute, "for each file")
	directory := flag.String("show", "", "where pictures of what is rejected go")
	together := flag.Bool("together", false, "files of transaction_load: the keys of a round are one object")
	flag.Parse()
	words := map[porcupine.CheckResult]string{
		porcupine.Ok: "linearizable", porcupine.Illegal: "NOT LINEARIZABLE", porcupine.Unknown: "undecided"}
	status := 0
	for _, path := range flag.Args() {
		histories, err := read(path, *together)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: no history: %v\n", path, err)
			os.Exit(2)
		}
		calls, unknown := 0, 0
		for _, one := range histories {
			calls += len(one.operations)
			for _, o := range one.operations {
				if o.Return == math.MaxInt64 {
					unknown++
				}
			}
		}
		started := time.Now()
		result := judge(path, histories, *timeout, *directory)
		fmt.Printf("%s: %s, %d calls in %d histories, %d of unknown fate, %.1f s\n", words[result], path, calls,
			len(histories), unknown, time.Since(started).Seconds())
		if result == porcupine.Illegal {
			status = 1
		} else if result == porcupine.Unknown && status == 0 {
			status = 3
		}
	}
	os.Exit(status)
}

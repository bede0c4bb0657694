package main

import (
	"hash/fnv"
	"log"
	"strings"
	"unicode"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/wordcount/words"
)

const counterName = "counter"

// newCounter returns an actor that counts the words sent to it.
func newCounter(*troupe.ActorContext, any) (troupe.Actor, error) {
	total := map[string]int64{}
	return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
		switch m := message.(type) {
		case *words.Words:
			for word, times := range m.Times {
				total[word] += times
			}
			answered(c.Reply(&words.Done{}))
		case *words.Total:
			answered(c.Reply(&words.Words{Times: total}))
		}
	}), nil
}

// newSplitter returns an actor that splits lines into words and asks the counters of all tasks to count them. It answers once they have.
func newSplitter(_ *troupe.ActorContext, arguments any) (troupe.Actor, error) {
	tasks := arguments.(*words.Tasks).Names
	return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
		line, ok := message.(*words.Line)
		if !ok {
			return
		}
		for task, share := range shares(line.Text, len(tasks)) {
			counter := troupe.ActorAt(tasks[task], counterName)
			if _, err := troupe.Ask[*words.Done](c.Context(), c.Node(), counter, &words.Words{Times: share}); err != nil {
				answered(c.Fail(err))
				return
			}
		}
		answered(c.Reply(&words.Done{}))
	}), nil
}

// answered logs that an answer could not be sent: the task that asked is lost, so no caller waits for it.
func answered(err error) {
	if err != nil {
		log.Printf("could not send an answer: %v", err)
	}
}

// shares counts the words of a line separately for each of n counters that has any of them.
func shares(line string, n int) map[int]map[string]int64 {
	all := map[int]map[string]int64{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) }) {
		h := fnv.New32a()
		h.Write([]byte(word))
		at := int(h.Sum32() % uint32(n))
		if all[at] == nil {
			all[at] = map[string]int64{}
		}
		all[at][word]++
	}
	return all
}

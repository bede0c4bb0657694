package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// asked names an Ask in a cluster.
type asked struct{ task, id string }

func (a *Asked) key() asked { return asked{a.GetTask(), a.GetId()} }

// request is a request to an actor, with the task whose Ask it is.
type request struct {
	task *Task
	ask  *Ask
}

func (r request) key() asked { return asked{r.task.Task, r.ask.Id} }

// holder is an actor that has a request.
type holder struct {
	task *Task
	held *Held
}

// actorInquiry is the data that explanations of requests to actors are derived from.
type actorInquiry struct {
	*inquiry
	holders map[asked]holder    // by the request that they hold
	onward  map[asked]request   // by the request that they pass on
	made    map[place][]request // by task and name of the actor that asks
	answers map[place]bool      // actors that have requests to answer
	told    map[asked]bool      // that an explanation has told of
	found   map[asked]finding   // the explanations so far: there may be too many paths to follow them all
}

// WhyAsks explains, from a view of all tasks with their asks (ForAllWhy), why requests to programs' actors have not been answered for longer
// than the given time: the longest first. A request that an explanation of another one tells of has none of its own.
func WhyAsks(c *Cluster, longer time.Duration) []Reason {
	w := &actorInquiry{inquiry: newInquiry(c), holders: map[asked]holder{}, onward: map[asked]request{}, made: map[place][]request{},
		answers: map[place]bool{}, told: map[asked]bool{}, found: map[asked]finding{}}
	var old []request
	for _, t := range c.Tasks {
		for _, h := range t.Held {
			w.holders[h.Ask.key()] = holder{t, h}
			w.answers[place{t.Task, h.Actor}] = true
		}
		for _, a := range t.Asks {
			r := request{t, a}
			if a.Actor != "" {
				at := place{t.Task, a.Actor}
				w.made[at] = append(w.made[at], r)
			}
			if a.Forwards != nil {
				w.onward[a.Forwards.key()] = r
			}
			if w.age(r) > longer {
				old = append(old, r)
			}
		}
	}
	slices.SortStableFunc(old, func(a, b request) int {
		// Those whom nobody waits for come first: their explanations cover the others.
		return cmp.Or(cmp.Compare(w.inner(a), w.inner(b)), cmp.Compare(w.age(b), w.age(a)))
	})
	out := []Reason{}
	for _, r := range old {
		if w.told[r.key()] {
			continue
		}
		f := w.request(&asks{at: r})
		out = append(out, Reason{Actor: asker(r), Seconds: w.age(r).Seconds(), Text: "it asked " + f.text, Blocked: f.rank >= waits, Deadlock: f.rank == deadlock})
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return out
}

// age returns how long a request has waited.
func (w *actorInquiry) age(r request) time.Duration {
	return time.Duration(r.task.clock(w.cluster) - r.ask.Began)
}

// inner returns 0 for a request of a program, 1 for one of an actor that has none to answer itself, and 2 for others.
func (w *actorInquiry) inner(r request) int {
	switch {
	case r.ask.Forwards != nil:
		return 2
	case r.ask.Actor == "":
		return 0
	}
	if w.answers[place{r.task.Task, r.ask.Actor}] {
		return 2
	}
	return 1
}

// asker names the actor, the program or the client that waits for a request.
func asker(r request) string {
	if r.ask.Actor == "" {
		return "a program or a client, on " + r.task.Task
	}
	return actorName(r.task.Task, r.ask.Actor)
}

func actorName(task, name string) string { return name + " on " + task }

// asks is the requests that an explanation has followed, from the latest to the first.
type asks struct {
	at     request
	sure   bool // it holds up the one before
	length int
	prev   *asks
}

// farthest is how many requests an explanation follows, one to the next.
const farthest = 32

// request explains why a request, the last of the path, has not been answered.
func (w *actorInquiry) request(path *asks) finding {
	r := path.at
	w.told[r.key()] = true
	f, ok := w.found[r.key()]
	if !ok {
		f = w.explain(r, path)
		w.found[r.key()] = f
	}
	return finding{fmt.Sprintf("%s for %s, %s ago; %s", actorName(r.ask.ToTask, r.ask.To), r.ask.Type, Ago(int64(w.age(r))), f.text), f.rank}
}

// explain is request for one that was not explained before.
func (w *actorInquiry) explain(r request, path *asks) finding {
	if path.length > farthest {
		return finding{"and so on", waits}
	}
	if next, ok := w.onward[r.key()]; ok {
		f := w.request(path.add(next, true))
		return finding{"it was passed on to " + f.text, f.rank}
	}
	h, ok := w.holders[r.key()]
	if !ok {
		if f, away := w.away(r.ask.ToTask); away {
			return f
		}
		return finding{"it is on its way, or its answer is", unclear}
	}
	actor := h.held.Actor
	switch {
	case h.held.ActorState == "suspended":
		return finding{actor + " has failed, and waits to be restarted", waits}
	case h.held.State == "answering":
		return w.follow(actor+" is answering it", h, path, finding{", and asks no other actor", computes}, true)
	case h.held.State == "kept":
		return w.follow(actor+" has kept it to answer it later", h, path, finding{"", unclear}, false)
	case h.held.Waiting > 1:
		return w.follow(fmt.Sprintf("it is one of %d messages that wait for %s, which handles another", h.held.Waiting, actor), h, path, finding{"", computes}, true)
	}
	return w.follow(fmt.Sprintf("it waits for %s, which handles another message", actor), h, path, finding{"", computes}, true)
}

// follow continues an explanation with what the actor that has the request waits for, or else with otherwise. blocks says that only requests
// matter during which the actor handles nothing else.
func (w *actorInquiry) follow(text string, by holder, path *asks, otherwise finding, blocks bool) finding {
	var all []finding
	for _, next := range w.made[place{by.task.Task, by.held.Actor}] {
		if blocks && !(next.ask.Blocks && by.held.ActorState == "running") {
			continue
		}
		if names, sure := path.circle(next); names != nil {
			all = append(all, circle(names, sure && blocks))
			continue
		}
		f := w.request(path.add(next, blocks))
		all = append(all, finding{", and has asked " + f.text, max(f.rank, waits)})
	}
	if len(all) == 0 {
		return finding{text + otherwise.text, otherwise.rank}
	}
	f := surest(all)
	return finding{text + f.text, f.rank}
}

// add returns the path with one request more.
func (p *asks) add(r request, sure bool) *asks { return &asks{r, sure, p.length + 1, p} }

// circle returns the names of the actors that ask each other in a circle, which ends with a request that has been followed already; nil if it
// has not. sure means that none of them can answer.
func (p *asks) circle(r request) (names []string, sure bool) {
	sure = true
	for ; p != nil; p = p.prev {
		if p.at.ask.Actor != "" { // otherwise the request was passed on
			names = append(names, actorName(p.at.task.Task, p.at.ask.Actor))
		}
		if p.at.key() == r.key() {
			slices.Reverse(names)
			return names, sure
		}
		sure = sure && p.sure
	}
	return nil, false
}

// circle is the finding of actors that ask each other.
func circle(names []string, sure bool) finding {
	text := "; they ask each other in a circle, " + strings.Join(append(names, names[0]), ", ")
	if len(names) == 1 {
		text = "; it has asked itself"
	}
	if !sure {
		return finding{text + ", in which one has to answer first", waits}
	}
	return finding{text + ": a deadlock", deadlock}
}

package actors

import "cmp"

// shares counts what each client of a task has. All of them together have a limit, and each of them has one, so that none uses up what the others need.
// The lock of the table that it belongs to guards it.
type shares struct {
	what         string
	most, mostOf int
	instead      string // what to do at the limit
	apart        bool   // clients that are not told apart from others, "", have no other limit than all
	all          int
	of           map[string]int
}

// add counts n more of one caller. The error is RESOURCE_EXHAUSTED.
func (s *shares) add(task, who string, n int) error {
	switch {
	case s.all+n > s.most:
		return tooMany(s.what, task, s.most, s.instead)
	case !s.bounds(who):
		s.all += n
		return nil
	case s.of[who]+n > s.mostOf:
		return tooMany(s.what, cmp.Or(who, "A client")+" on "+task, s.mostOf, s.instead)
	case s.of == nil:
		s.of = map[string]int{}
	}
	s.all += n
	s.of[who] += n
	return nil
}

// bounds reports whether a caller has a limit of its own, and so a count.
func (s *shares) bounds(who string) bool { return !s.apart || who != "" }

// drop undoes add.
func (s *shares) drop(who string, n int) {
	s.all -= n
	if !s.bounds(who) {
		return
	}
	if s.of[who] -= n; s.of[who] == 0 {
		delete(s.of, who)
	}
}

// halves returns shares of which each client that can be told apart from others may have half.
func halves(what string, most int, instead string) shares {
	return shares{what: what, most: most, mostOf: most / 2, instead: instead, apart: true}
}

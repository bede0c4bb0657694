package view

import "github.com/troupe-run/troupe/internal/recent"

// MaxLatecomers is the number of sessions that Latecomers remember. Beyond it, the first of them is forgotten, and is a new one when it comes
// again.
const MaxLatecomers = 1024

// Latecomers are the sessions that were opened after an end, such as that of a closed queue, and have come to it since: those that have taken
// what was left, and those that have missed everything and got the end alone. The latter are most likely those of a program that runs a second
// time. Their OUT_OF_RANGE, which is TensorFlow's, looks like the end of their own run's elements, so operators are told. The zero value has
// none.
type Latecomers struct {
	// Missed is how many have missed everything, and Last what the last of them did, when it came.
	Missed int64
	Last   Act

	known *recent.Map[string, struct{}] // by session
}

// Add remembers a session and reports whether it is new.
func (l *Latecomers) Add(session string) (isNew bool) {
	if l.known == nil {
		l.known = recent.NewMap[string, struct{}](MaxLatecomers)
	}
	if _, is := l.known.Get(session); is {
		return false
	}
	l.known.Add(session, struct{}{})
	return true
}

// Miss remembers a session that has missed everything, and reports whether it is new.
func (l *Latecomers) Miss(a Act) (isNew bool) {
	if !l.Add(a.By.Session) {
		return false
	}
	l.Missed, l.Last = l.Missed+1, a
	return true
}

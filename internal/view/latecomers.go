package view

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

	known  map[string]struct{} // by session
	ring   []string            // of known, the first one to be forgotten at oldest
	oldest int
}

// Add remembers a session and reports whether it is new.
func (l *Latecomers) Add(session string) (isNew bool) {
	if _, is := l.known[session]; is {
		return false
	}
	if l.known == nil {
		l.known = map[string]struct{}{}
	}
	l.known[session] = struct{}{}
	if len(l.ring) < MaxLatecomers {
		l.ring = append(l.ring, session)
		return true
	}
	delete(l.known, l.ring[l.oldest])
	l.ring[l.oldest] = session
	l.oldest = (l.oldest + 1) % MaxLatecomers
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

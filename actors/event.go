package actors

// event is something that happens once. The channel that tells of it is made when somebody waits.
// Whoever owns it guards it with a lock.
type event struct {
	happened bool
	told     chan struct{} // nil while nobody waits
}

// wait gives a channel that is closed when the event has happened.
func (e *event) wait() <-chan struct{} {
	if e.told == nil {
		e.told = make(chan struct{})
		if e.happened {
			close(e.told)
		}
	}
	return e.told
}

func (e *event) happen() {
	e.happened = true
	if e.told != nil {
		close(e.told)
	}
}

package actors

// event is something that happens once. Its channel is created when a goroutine first waits. The owner guards it with a lock.
type event struct {
	happened bool
	told     chan struct{} // nil until a goroutine waits
}

// wait returns a channel that is closed when the event has happened.
func (e *event) wait() <-chan struct{} {
	if e.told == nil {
		e.told = make(chan struct{})
		if e.happened {
			close(e.told)
		}
	}
	return e.told
}

func (e *event) set() {
	e.happened = true
	if e.told != nil {
		close(e.told)
	}
}

package actors

// event is something that happens once. Its channel is created when a goroutine first waits. The owner guards it with a lock.
type event struct {
	told chan struct{} // nil until a goroutine waits or the event happens; closed if it has happened
}

// untold is the channel of events that happened before any goroutine waited.
var untold = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// wait returns a channel that is closed when the event has happened.
func (e *event) wait() <-chan struct{} {
	if e.told == nil {
		e.told = make(chan struct{})
	}
	return e.told
}

func (e *event) set() {
	if e.told == nil {
		e.told = untold
		return
	}
	close(e.told)
}

// happened reports whether the event has happened.
func (e *event) happened() bool {
	select {
	case <-e.told:
		return true
	default: // also if there is no channel
		return false
	}
}

// awaited reports whether a goroutine has waited before the event happened.
func (e *event) awaited() bool { return e.told != nil && e.told != untold }

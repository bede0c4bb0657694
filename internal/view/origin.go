package view

// StepOrigin tells which step did something with a resource. The zero value is no step.
type StepOrigin struct {
	Step uint64
	// Session is the name of the step's session, Master the task that it is open on.
	Session, Master string
	// Began is when the step began, in nanoseconds since 1970.
	Began int64
}

// Proto is the origin as a message; nil for no step.
func (o StepOrigin) Proto() *Origin {
	if o == (StepOrigin{}) {
		return nil
	}
	return &Origin{Step: o.Step, Session: o.Session, Master: o.Master, At: o.Began}
}

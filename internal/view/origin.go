package view

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// StepOrigin identifies the step that operated on a resource. The zero value means no step.
type StepOrigin struct {
	Step uint64
	// Session is the name of the step's session, Master the task on which it is open.
	Session, Master string
	// Began is when the step began, in nanoseconds since 1970.
	Began int64
	// Opened is when the session was opened, by the clock of the task that keeps the origin; 0 if that is not known.
	Opened int64
}

// Proto returns the origin as a message, or nil for no step.
func (o StepOrigin) Proto() *Origin {
	if o == (StepOrigin{}) {
		return nil
	}
	return &Origin{Step: o.Step, Session: o.Session, Master: o.Master, At: o.Began}
}

// Act is an action of a step on a resource that outlives the step, such as closing it. Errors of later steps name it. The zero value means
// none.
type Act struct {
	By StepOrigin
	At time.Time
}

// Proto returns the act as a message, or nil for none.
func (a Act) Proto() *Origin {
	if a.At.IsZero() {
		return nil
	}
	return &Origin{Step: a.By.Step, Session: a.By.Session, Master: a.By.Master, At: a.At.UnixNano()}
}

// act returns the act described by a message, or none for nil.
func (o *Origin) act() Act {
	if o == nil {
		return Act{}
	}
	return Act{By: StepOrigin{Step: o.GetStep(), Session: o.GetSession(), Master: o.GetMaster()}, At: time.Unix(0, o.GetAt())}
}

// Precedes reports whether the act was over when the session of a step was opened.
func (a Act) Precedes(o StepOrigin) bool {
	return !a.At.IsZero() && o.Session != "" && o.Opened > a.At.UnixNano()
}

// Before returns what an error of a later step adds to When if a step of another session did the act.
func (a Act) Before(o StepOrigin) string {
	if a.By.Session == o.Session {
		return ""
	}
	return ", " + status.AfterEnd
}

// When says when it happened and which session's step did it, to follow a participle: "3m12s ago (2026-11-26T12:03:04Z) by session d8b2431d
// of /job:worker/replica:0/task:0".
func (a Act) When(now time.Time) string {
	if a.At.IsZero() {
		return "at a time that is not known"
	}
	text := fmt.Sprintf("%s ago (%s)", Ago(now.Sub(a.At).Nanoseconds()), a.At.UTC().Format(time.RFC3339))
	if a.By.Session != "" {
		text += fmt.Sprintf(" by session %s of %s", a.By.Session, a.By.Master)
	}
	return text
}

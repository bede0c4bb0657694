package cast

import (
	"errors"

	"github.com/troupe-run/troupe/graph/status"
)

// outcome is the error of a message, with what else is known of it. It does not leave the package.
type outcome struct {
	error
	own     bool // the actor itself answered with it, and lives on
	unbegun bool // no actor has begun to handle the message: it may be sent anew to a virtual actor, or to another worker of a pool
}

func (o outcome) Unwrap() error { return o.error }

// outcomeOf returns what is known of an error, which may be nil.
func outcomeOf(err error) outcome {
	if err == nil { // most often: errors.As allocates
		return outcome{}
	}
	var o outcome
	if errors.As(err, &o) {
		return o
	}
	return outcome{error: err}
}

// plain returns an error of which nothing else is known.
func plain(err error) error { return outcomeOf(err).error }

// begun returns an error that does not say that its message may be sent anew.
func begun(err error) error {
	if o := outcomeOf(err); o.own {
		return outcome{error: o.error, own: true}
	}
	return plain(err)
}

// notBegun is the error of a message that no actor has begun to handle.
func notBegun(err error) error { return outcome{error: err, unbegun: true} }

// unsent returns the error of a message that was not sent. If its task was out of reach, nobody has begun to handle it.
func unsent(err error) error {
	if status.CodeOf(err) == status.Unavailable {
		return notBegun(err)
	}
	return err
}

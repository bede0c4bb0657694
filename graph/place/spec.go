package place

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// Spec is a full or partial device name: /job:J/replica:R/task:T/device:TYPE:INDEX, any part of which may be left open. An open name is ""
// and an open number -1, so the zero value is not the open Spec; Open returns that.
type Spec struct {
	Job           string
	Replica, Task int
	Type          string
	Index         int
}

// Open returns the Spec that every device matches.
func Open() Spec { return Spec{Replica: -1, Task: -1, Index: -1} }

// IsOpen reports whether no part is set.
func (s Spec) IsOpen() bool { return s == Open() }

// IsFull reports whether every part is set, as in the name of an actual device.
func (s Spec) IsFull() bool {
	return s.Job != "" && s.Replica >= 0 && s.Task >= 0 && s.Type != "" && s.Index >= 0
}

// OnTask returns s without its type and index, the part that names a task.
func (s Spec) OnTask() Spec {
	s.Type, s.Index = "", -1
	return s
}

// String returns the canonical form, which Parse accepts; it is "" for the open Spec. A type without an index is written TYPE:*, as in
// TensorFlow.
func (s Spec) String() string {
	var b strings.Builder
	part := func(name, value string) {
		b.WriteByte('/')
		b.WriteString(name)
		b.WriteByte(':')
		b.WriteString(value)
	}
	if s.Job != "" {
		part("job", s.Job)
	}
	if s.Replica >= 0 {
		part("replica", strconv.Itoa(s.Replica))
	}
	if s.Task >= 0 {
		part("task", strconv.Itoa(s.Task))
	}
	if s.Type == "" && s.Index < 0 {
		return b.String()
	}
	kind, index := s.Type, "*"
	if kind == "" {
		kind = "*"
	}
	if s.Index >= 0 {
		index = strconv.Itoa(s.Index)
	}
	part("device", kind+":"+index)
	return b.String()
}

// Matches reports whether s allows the device with the full name dev.
func (s Spec) Matches(dev Spec) bool {
	return (s.Job == "" || s.Job == dev.Job) &&
		(s.Replica < 0 || s.Replica == dev.Replica) &&
		(s.Task < 0 || s.Task == dev.Task) &&
		(s.Type == "" || s.Type == dev.Type) &&
		(s.Index < 0 || s.Index == dev.Index)
}

// Compatible reports whether no part is set to different values in s and t, so that one device may match both.
func (s Spec) Compatible(t Spec) bool {
	return (s.Job == "" || t.Job == "" || s.Job == t.Job) &&
		(s.Replica < 0 || t.Replica < 0 || s.Replica == t.Replica) &&
		(s.Task < 0 || t.Task < 0 || s.Task == t.Task) &&
		(s.Type == "" || t.Type == "" || s.Type == t.Type) &&
		(s.Index < 0 || t.Index < 0 || s.Index == t.Index)
}

// Override returns s with every part that is set in t replaced by t's.
func (s Spec) Override(t Spec) Spec {
	if t.Job != "" {
		s.Job = t.Job
	}
	if t.Replica >= 0 {
		s.Replica = t.Replica
	}
	if t.Task >= 0 {
		s.Task = t.Task
	}
	if t.Type != "" {
		s.Type = t.Type
	}
	if t.Index >= 0 {
		s.Index = t.Index
	}
	return s
}

// Merge returns the Spec that satisfies both s and t, or INVALID_ARGUMENT if they contradict each other. With soft (allow_soft_placement),
// conflicting types or indices are left open instead; jobs, replicas and tasks never are.
func (s Spec) Merge(t Spec, soft bool) (Spec, error) {
	m := s // the message shows what had been merged before the conflict
	conflict := func(what string) (Spec, error) {
		return Spec{}, status.InvalidArgumentf("Cannot merge devices with incompatible %s: '%s' and '%s'", what, m, t)
	}
	if m.Job != "" && t.Job != "" && m.Job != t.Job {
		return conflict("jobs")
	}
	m.Job = cmp.Or(t.Job, m.Job)
	if m.Replica >= 0 && t.Replica >= 0 && m.Replica != t.Replica {
		return conflict("replicas")
	}
	m.Replica = max(m.Replica, t.Replica)
	if m.Task >= 0 && t.Task >= 0 && m.Task != t.Task {
		return conflict("tasks")
	}
	m.Task = max(m.Task, t.Task)
	if m.Type != "" && t.Type != "" && m.Type != t.Type {
		if !soft {
			return conflict("types")
		}
		m.Type, m.Index = "", -1
		return m, nil
	}
	m.Type = cmp.Or(t.Type, m.Type)
	if m.Index >= 0 && t.Index >= 0 && m.Index != t.Index {
		if !soft {
			return conflict("ids")
		}
		m.Index = -1
		return m, nil
	}
	m.Index = max(m.Index, t.Index)
	return m, nil
}

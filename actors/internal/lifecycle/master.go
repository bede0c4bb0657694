package lifecycle

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
)

// Master is a step as its master sees it: which parts have not ended, and the error that the client receives. The zero value is a step that
// is over. Its methods must not be called concurrently. After the step is over they change nothing and ask for nothing.
type Master struct {
	own    string // the master's own task
	local  bool   // the part on that task has not ended
	parts  []part // on other tasks
	left   int    // those that have not ended
	err    error
	failed bool
}

// part is a part on another task.
type part struct {
	task  string
	state state
}

// state is the state of a part on another task, as far as the master knows.
type state uint8

const (
	pending state = iota // not asked for
	asked                // from before the message that starts it is sent
	ended
)

// Effects is what the caller of a Master must do. The zero value asks for nothing.
type Effects struct {
	// Failed reports the step's first failure, which its client need not wait for the parts to learn.
	Failed bool
	// AbortOwn and Abort name the parts to end because of Err: the master's own, and those of other tasks.
	AbortOwn bool
	Abort    []string
	Err      error // of the step; derived for a part
	// Stray reports that the part of the lost task may still run, and must be aborted when the task is reached again.
	Stray bool
	// Over reports that the last part has ended.
	Over bool
}

// Begin starts the life of a step with a part on the task own and parts on other tasks.
func (m *Master) Begin(own string, others ...string) {
	m.own, m.local, m.parts, m.left, m.err, m.failed = own, true, m.parts[:0], len(others), nil, false
	for _, task := range others {
		m.parts = append(m.parts, part{task: task})
	}
}

// Over reports whether every part has ended.
func (m *Master) Over() bool { return !m.local && m.left == 0 }

// Err returns the step's error: the first one, but a cause rather than its consequences.
func (m *Master) Err() error { return m.err }

// Local reports whether the part on the master's own task has not ended.
func (m *Master) Local() bool { return m.local }

// Owing returns the other tasks whose parts have not ended, sorted.
func (m *Master) Owing() []string {
	var tasks []string
	for _, p := range m.parts {
		if p.state != ended {
			tasks = append(tasks, p.task)
		}
	}
	slices.Sort(tasks)
	return tasks
}

// find returns the part of another task, or nil if the task owes none.
func (m *Master) find(task string) *part {
	for i := range m.parts {
		if p := &m.parts[i]; p.task == task && p.state != ended {
			return p
		}
	}
	return nil
}

// Start is called before a task is asked to run its part. If the result is false, it must not be asked: the step has failed, and a part that
// began now would not be aborted; or the part has ended.
func (m *Master) Start(task string) (bool, Effects) {
	p := m.find(task)
	switch {
	case p == nil:
		return false, Effects{}
	case m.failed:
		return false, m.end(p, nil)
	}
	p.state = asked
	return true, Effects{}
}

// Started is called when a task has been asked to run its part. If the step has failed meanwhile, the part is aborted once more: the task
// may not have been reached before, or the connection to it was lost.
func (m *Master) Started(task string) Effects {
	if m.failed {
		return Effects{Abort: []string{task}, Err: m.err}
	}
	return Effects{}
}

// Unknown is called when a task does not know the step's plan, and reports whether it owes a part, so that it must be asked again.
func (m *Master) Unknown(task string) bool { return m.find(task) != nil }

// Ended is called when the part of another task has ended, with its error, or could not be started. The error may be nil.
func (m *Master) Ended(task string, err error) Effects {
	p := m.find(task)
	if p == nil {
		return Effects{}
	}
	return m.end(p, err)
}

// EndedOwn is called when the part on the master's own task has ended. The error may be nil.
func (m *Master) EndedOwn(err error) (e Effects) {
	if !m.local {
		return e
	}
	m.local = false
	if err != nil {
		e = m.fail(atTask(err, m.own))
	}
	e.Over = m.Over()
	return e
}

// end ends the part of another task.
func (m *Master) end(p *part, err error) (e Effects) {
	p.state = ended
	m.left--
	if err != nil {
		e = m.fail(atTask(err, p.task))
	}
	e.Over = m.Over()
	return e
}

// Fail is called with an error that ends the step.
func (m *Master) Fail(err error) Effects {
	if m.Over() {
		return Effects{}
	}
	return m.fail(err)
}

// fail records an error. The first one aborts all parts that have been asked for. The abort may overtake the message that starts a part. It must
// not wait for that message: what the client sends after it cancelled the step, such as an element for a queue, would reach the task first.
func (m *Master) fail(err error) Effects {
	m.err = status.Worse(m.err, err)
	if m.failed {
		return Effects{}
	}
	m.failed = true
	e := Effects{Failed: true, AbortOwn: m.local, Err: m.err}
	for _, p := range m.parts {
		if p.state == asked {
			e.Abort = append(e.Abort, p.task)
		}
	}
	return e
}

// Lost is called when the connection to a task is lost. Its part may still run.
func (m *Master) Lost(task string, err error) Effects {
	p := m.find(task)
	if p == nil {
		return Effects{}
	}
	asked := p.state != pending
	e := m.end(p, err)
	e.Stray = asked
	return e
}

// Abandon ends the parts of all other tasks, which do not answer in time.
func (m *Master) Abandon(err error) (all Effects) {
	for i := range m.parts {
		if p := &m.parts[i]; p.state != ended {
			e := m.end(p, err)
			if e.Failed {
				all = e
			}
			all.Over = e.Over
		}
	}
	return all
}

// atTask adds the name of its task to a node's error. Other errors are about the cluster itself.
func atTask(err error, task string) error {
	if status.NamesNode(err) {
		return status.AtTask(err, task)
	}
	return err
}

package access

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/rights"
)

// Policy decides who may do what. The first rule that matches an identity decides everything that it may do: later rules are ignored, and
// rules are never combined. An identity that no rule matches may do nothing. A Policy is immutable.
type Policy struct {
	rules []*rule
}

// rule is what the identities that it matches may do.
type rule struct {
	file string
	line int

	who []subject
	by  []Kind // empty for any

	may                      actionSet
	containers, devices, ops rights.Patterns
	files                    FileRights
	limits                   Limits
}

func (r *rule) place() string { return fmt.Sprintf("%s:%d", r.file, r.line) }

// subject is one entry of a rule's who: a kind of identity, or names.
type subject struct {
	text string
	is   func(Identity) bool
}

// about reports whether the rule matches an identity.
func (r *rule) about(i Identity) bool {
	return (len(r.by) == 0 || slices.Contains(r.by, i.Kind)) && anyIs(r.who, i)
}

func anyIs(all []subject, i Identity) bool {
	return slices.ContainsFunc(all, func(s subject) bool { return s.is(i) })
}

// Len returns the number of rules.
func (p *Policy) Len() int { return len(p.rules) }

// Rights returns what an identity may do.
func (p *Policy) Rights(i Identity) *Rights {
	for _, r := range p.rules {
		if r.about(i) {
			return newRights(i, r)
		}
	}
	return newRights(i, nil)
}

// subjectOf parses an entry of the field who; groups are the policy's groups that have been read so far.
func subjectOf(text string, groups map[string][]subject) (subject, error) {
	s := subject{text: text}
	kind, rest, named := strings.Cut(text, ":")
	switch {
	case text == "any":
		s.is = func(Identity) bool { return true }
	case text == Loopback.String():
		s.is = func(i Identity) bool { return i.Kind == Loopback }
	case text == Network.String():
		s.is = func(i Identity) bool { return i.Kind == Network }
	case named && rest != "" && kind == "client":
		s.is = func(i Identity) bool { return i.Name.Client() != "" && rights.Match(rest, i.Name.Client()) }
	case named && rest != "" && kind == "task":
		s.is = func(i Identity) bool {
			return i.Name.Job() != "" && (rights.Match(text, i.String()) || rest == i.Name.Job())
		}
	case named && rest != "" && kind == "claim":
		s.is = func(i Identity) bool {
			return slices.ContainsFunc(i.Claims, func(c string) bool { return rights.Match(rest, c) })
		}
	case named && kind == "group":
		members, ok := groups[rest]
		if !ok {
			return s, status.InvalidArgumentf("the group %q is not defined", rest)
		}
		s.is = func(i Identity) bool { return anyIs(members, i) }
	default:
		return s, status.InvalidArgumentf("%.100q says nobody: client:NAME, task:JOB/INDEX, claim:NAME, group:NAME, loopback, network or any is expected", text)
	}
	return s, nil
}

// PolicyConfig says where a policy is.
type PolicyConfig struct {
	File string
	// Reloaded, if set, is called after every attempt to reload the file.
	Reloaded func(what string, err error)
	Log      *slog.Logger // nil: slog.Default()
}

// PolicyFile is a policy that is reloaded when its file changes. If the new one cannot be used, the previous one stays in use. Its methods
// are safe for concurrent use.
type PolicyFile struct {
	files reloader
	now   atomic.Pointer[Policy]
}

// LoadPolicy reads a policy and watches its file until Close.
func LoadPolicy(c PolicyConfig) (*PolicyFile, error) {
	f := &PolicyFile{}
	f.files = reloader{what: "policy", paths: []string{c.File}, log: cmp.Or(c.Log, slog.Default()), told: c.Reloaded, load: func() error {
		p, err := ReadPolicy(c.File)
		if err == nil {
			f.now.Store(p)
		}
		return err
	}}
	if err := f.files.start(); err != nil {
		return nil, err
	}
	return f, nil
}

// ReadPolicy reads a policy's file. The errors name the file and the line.
func ReadPolicy(file string) (*Policy, error) {
	text, err := readFile("policy", file)
	if err != nil {
		return nil, err
	}
	return ParsePolicy(filepath.Base(file), text)
}

// Policy returns the current policy.
func (f *PolicyFile) Policy() *Policy { return f.now.Load() }

// Reload reads the file now.
func (f *PolicyFile) Reload() error { return f.files.reload() }

// Close stops watching the file.
func (f *PolicyFile) Close() { f.files.close() }

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
)

// Policy says who may do what. The first rule that is about an identity decides all that it may do; later ones are not
// looked at, and rules are never added up. An identity that no rule is about may do nothing. A Policy is immutable.
type Policy struct {
	rules []*rule
}

// rule is what the identities that it is about may do.
type rule struct {
	file string
	line int

	who []subject
	by  []Kind // empty for any

	may                      actionSet
	containers, devices, ops patterns
	files                    FileRights
	limits                   Limits
}

func (r *rule) place() string { return fmt.Sprintf("%s:%d", r.file, r.line) }

// subject is one entry of a rule's who: a kind of identity, or names.
type subject struct {
	text string
	is   func(Identity) bool
}

// about tells whether the rule decides for an identity.
func (r *rule) about(i Identity) bool {
	return (len(r.by) == 0 || slices.Contains(r.by, i.Kind)) && anyIs(r.who, i)
}

func anyIs(all []subject, i Identity) bool {
	return slices.ContainsFunc(all, func(s subject) bool { return s.is(i) })
}

// patterns allow and deny texts; what is denied is so even where it is allowed. Without a list of what is allowed,
// everything is.
type patterns struct {
	line        int // of the list, 0 if there is none
	restricts   bool
	allow, deny []pattern
}

type pattern struct {
	text string
	line int
	is   func(string) bool
}

// refusal tells why a text is not allowed; nil if it is.
func (p *patterns) refusal(text string) func(*rule) string {
	for _, d := range p.deny {
		if d.is(text) {
			return func(r *rule) string { return fmt.Sprintf("denied by %q at %s:%d", d.text, r.file, d.line) }
		}
	}
	if !p.restricts {
		return nil
	}
	for _, a := range p.allow {
		if a.is(text) {
			return nil
		}
	}
	return func(r *rule) string {
		return fmt.Sprintf("the rule at %s does not allow it (nothing in its list at line %d matches)", r.place(), p.line)
	}
}

// Len is the number of rules.
func (p *Policy) Len() int { return len(p.rules) }

// Rights are what an identity may do.
func (p *Policy) Rights(i Identity) *Rights {
	for _, r := range p.rules {
		if r.about(i) {
			return &Rights{i, r}
		}
	}
	return &Rights{who: i}
}

// subjectOf reads an entry of who. groups are those of the policy that were read already.
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
		s.is = func(i Identity) bool { return i.Name.Client() != "" && glob(rest, i.Name.Client()) }
	case named && rest != "" && kind == "task":
		s.is = func(i Identity) bool {
			return i.Name.Job() != "" && (glob(text, i.String()) || rest == i.Name.Job())
		}
	case named && rest != "" && kind == "claim":
		s.is = func(i Identity) bool {
			return slices.ContainsFunc(i.Claims, func(c string) bool { return glob(rest, c) })
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

// patternOf reads an entry of a list of patterns.
func patternOf(text string, line int, groups map[string]func(string) bool) (pattern, error) {
	p := pattern{text: text, line: line}
	if strings.HasPrefix(text, "@") && groups != nil {
		if p.is = groups[text]; p.is == nil {
			return p, status.InvalidArgumentf("there is no group of ops %.100q: %s are", text, strings.Join(opGroupNames(), " and "))
		}
		return p, nil
	}
	p.is = func(s string) bool { return glob(text, s) }
	return p, nil
}

// PolicyConfig says where a policy is.
type PolicyConfig struct {
	File string
	// Reloaded, if set, is told of every attempt to reload the file.
	Reloaded func(what string, err error)
	Log      *slog.Logger // nil: slog.Default()
}

// PolicyFile is a policy that is read again when its file changes. One that cannot be used leaves the one from before.
// All methods may be called concurrently.
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

// Policy is the one that holds now.
func (f *PolicyFile) Policy() *Policy { return f.now.Load() }

// Reload reads the file now.
func (f *PolicyFile) Reload() error { return f.files.reload() }

// Close ends the watching of the file.
func (f *PolicyFile) Close() { f.files.close() }

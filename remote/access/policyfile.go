package access

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/bytesize"
	"github.com/troupe-run/troupe/internal/rights"
	"go.yaml.in/yaml/v3"
)

// maxEntries bounds each list of a policy. Every call by an identity not seen before, and every node of a new plan, is checked against
// lists.
const maxEntries = 10_000

// policyReader reads the YAML of a policy. It walks the nodes itself, so every error has its line.
type policyReader struct {
	file   string
	groups map[string][]subject
}

// ParsePolicy parses the text of a policy; name is the file's name in messages. Unknown or duplicate fields and invalid values are errors.
// Aliases are not supported.
func ParsePolicy(name string, text []byte) (*Policy, error) {
	r := &policyReader{file: name, groups: map[string][]subject{}}
	if len(text) > maxFile {
		return nil, status.InvalidArgumentf("%s has more than %d bytes", name, maxFile)
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var root yaml.Node
	if err := documents.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, status.InvalidArgumentf("%s is empty: a policy has rules", name)
		}
		return nil, status.InvalidArgumentf("%s: %v", name, err)
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, status.InvalidArgumentf("%s: a policy is one document, and something follows it", name)
	}
	p := &Policy{}
	var rules *yaml.Node
	err := r.mapping(root.Content[0], fields{
		"groups": r.readGroups,
		"rules":  func(n *yaml.Node) error { rules = n; return nil }, // parsed after the groups that they name
	})
	switch {
	case err != nil:
		return nil, err
	case rules == nil:
		return nil, r.wrong(root.Content[0], "a policy has rules, and this one has none")
	}
	err = r.list(rules, func(n *yaml.Node) error {
		rule, err := r.readRule(n)
		p.rules = append(p.rules, rule)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (r *policyReader) wrong(n *yaml.Node, format string, args ...any) error {
	return status.InvalidArgumentf("%s:%d: "+format, append([]any{r.file, n.Line}, args...)...)
}

// at adds the line to an error that has none yet.
func (r *policyReader) at(n *yaml.Node, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), r.file+":") {
		return err
	}
	return r.wrong(n, "%v", err)
}

type fields map[string]func(*yaml.Node) error

// mapping reads the fields of a mapping.
func (r *policyReader) mapping(n *yaml.Node, known fields) error {
	if n.Kind != yaml.MappingNode {
		return r.wrong(n, "fields are expected here (name: value), not %s", kindOf(n))
	}
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, err := r.text(key)
		if err != nil {
			return err
		}
		if line, twice := seen[name]; twice {
			return r.wrong(key, "%q is given twice, first in line %d", name, line)
		}
		seen[name] = key.Line
		read := known[name]
		if read == nil {
			if read = known["*"]; read == nil {
				return r.wrong(key, "unknown field %.100q: %s are known", name, strings.Join(sortedNames(known), ", "))
			}
			value = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, value}, Line: key.Line}
		}
		if err := r.at(key, read(value)); err != nil {
			return err
		}
	}
	return nil
}

func sortedNames(known fields) []string {
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias, which policies do not have"
	}
	return strconv.Quote(n.Value)
}

func (r *policyReader) list(n *yaml.Node, read func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return r.wrong(n, "a list is expected here, not %s", kindOf(n))
	}
	if len(n.Content) > maxEntries {
		return r.wrong(n, "the list has %d entries, the limit is %d", len(n.Content), maxEntries)
	}
	for _, entry := range n.Content {
		if err := r.at(entry, read(entry)); err != nil {
			return err
		}
	}
	return nil
}

// maxText bounds a name or a pattern.
const maxText = 1024

func (r *policyReader) text(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", r.wrong(n, "a text is expected here, not %s", kindOf(n))
	}
	if len(n.Value) > maxText {
		return "", r.wrong(n, "a text of %d bytes is too long: the limit is %d", len(n.Value), maxText)
	}
	return n.Value, nil
}

// texts reads a list of texts; a single text is a list of one.
func (r *policyReader) texts(n *yaml.Node, read func(entry *yaml.Node, text string) error) error {
	one := func(n *yaml.Node) error {
		text, err := r.text(n)
		if err != nil {
			return err
		}
		return r.at(n, read(n, text))
	}
	if n.Kind == yaml.ScalarNode {
		return one(n)
	}
	return r.list(n, one)
}

func (r *policyReader) readGroups(n *yaml.Node) error {
	return r.mapping(n, fields{"*": func(one *yaml.Node) error {
		name, members := one.Content[0].Value, one.Content[1]
		if !validClient(name) {
			return r.wrong(one, "%.100q is not a group's name: letters, digits and ._-@ are allowed", name)
		}
		var all []subject
		err := r.texts(members, func(_ *yaml.Node, text string) error {
			if strings.HasPrefix(text, "group:") {
				return status.InvalidArgumentf("a group has no groups as members")
			}
			s, err := subjectOf(text, nil)
			all = append(all, s)
			return err
		})
		r.groups[name] = all
		return err
	}})
}

func (r *policyReader) readRule(n *yaml.Node) (*rule, error) {
	u := &rule{file: r.file, line: n.Line}
	err := r.mapping(n, fields{
		"who": func(n *yaml.Node) error {
			return r.texts(n, func(_ *yaml.Node, text string) error {
				s, err := subjectOf(text, r.groups)
				u.who = append(u.who, s)
				return err
			})
		},
		"by":         func(n *yaml.Node) error { return r.readKinds(n, u) },
		"may":        func(n *yaml.Node) error { return r.readActions(n, u) },
		"containers": func(n *yaml.Node) error { return r.readPatterns(n, &u.containers, false) },
		"devices":    func(n *yaml.Node) error { return r.readPatterns(n, &u.devices, false) },
		"ops":        func(n *yaml.Node) error { return r.readPatterns(n, &u.ops, true) },
		"files":      func(n *yaml.Node) error { return r.readFiles(n, &u.files) },
		"limits":     func(n *yaml.Node) error { return r.readLimits(n, &u.limits) },
	})
	if err == nil && len(u.who) == 0 {
		err = r.wrong(n, "the rule does not say who it is about")
	}
	return u, err
}

func (r *policyReader) readKinds(n *yaml.Node, u *rule) error {
	return r.texts(n, func(_ *yaml.Node, text string) error {
		k := slices.Index(kindNames[:], text)
		if k < 0 {
			return status.InvalidArgumentf("%.100q is not a way to show who one is: %s are", text, strings.Join(kindNames[:], ", "))
		}
		u.by = append(u.by, Kind(k))
		return nil
	})
}

func (r *policyReader) readActions(n *yaml.Node, u *rule) error {
	return r.texts(n, func(_ *yaml.Node, text string) error {
		if text == "all" {
			u.may = allActions
			return nil
		}
		a, err := ParseAction(text)
		if err == nil {
			u.may = u.may.with(a)
		}
		return err
	})
}

// readPatterns reads a list of what is allowed, or the fields allow and deny. A list of ops may name groups of ops.
func (r *policyReader) readPatterns(n *yaml.Node, p *rights.Patterns, ops bool) error {
	p.Line = n.Line
	into := func(all *[]rights.Pattern) func(*yaml.Node) error {
		return func(n *yaml.Node) error {
			return r.texts(n, func(entry *yaml.Node, text string) error {
				one, err := rights.NewPattern(text, entry.Line, ops)
				*all = append(*all, one)
				return err
			})
		}
	}
	allow := func(n *yaml.Node) error {
		p.Restricts = true // even if the list is empty
		return into(&p.Allow)(n)
	}
	if n.Kind != yaml.MappingNode {
		return allow(n)
	}
	return r.mapping(n, fields{"allow": allow, "deny": into(&p.Deny)})
}

func (r *policyReader) readFiles(n *yaml.Node, f *FileRights) error {
	text, err := r.text(n)
	if err != nil {
		return err
	}
	i := slices.Index(fileNames[:], text)
	if i < 0 {
		return r.wrong(n, "%.100q does not say which files: %s do", text, strings.Join(fileNames[:], ", "))
	}
	*f = FileRights(i)
	return nil
}

func (r *policyReader) readLimits(n *yaml.Node, l *Limits) error {
	count := func(to *int) func(*yaml.Node) error {
		return func(n *yaml.Node) error {
			v, err := strconv.ParseInt(n.Value, 10, 32)
			if err != nil || v < 1 || n.Kind != yaml.ScalarNode {
				return r.wrong(n, "%s is not a number from 1 to %d", kindOf(n), math.MaxInt32)
			}
			*to = int(v)
			return nil
		}
	}
	bytes := func(to *int64) func(*yaml.Node) error {
		return func(n *yaml.Node) error {
			v, err := bytesize.Parse(n.Value)
			if err != nil || v == 0 || n.Kind != yaml.ScalarNode {
				return r.wrong(n, "%s is not a number of bytes such as 256MiB", kindOf(n))
			}
			*to = v
			return nil
		}
	}
	return r.mapping(n, fields{"sessions": count(&l.Sessions), "session_bytes": bytes(&l.SessionBytes), "client_bytes": bytes(&l.ClientBytes), "step_bytes": bytes(&l.StepBytes),
		"steps": count(&l.Steps), "steps_per_second": count(&l.StepsPerSecond)})
}

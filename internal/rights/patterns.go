package rights

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// Pattern is an entry of a list of names: a name in which * stands for any characters and ? for one, or a group of ops, which begins with
// an @. Line is its line in the policy.
type Pattern struct {
	Text string
	Line int
}

// NewPattern parses an entry. Only lists of ops may contain groups.
func NewPattern(text string, line int, ops bool) (Pattern, error) {
	if ops && strings.HasPrefix(text, "@") && groups[text] == nil {
		return Pattern{}, status.InvalidArgumentf("there is no group of ops %.100q; the groups are %s", text, strings.Join(Groups(), " and "))
	}
	return Pattern{text, line}, nil
}

// matches reports whether any of a resource's names matches.
func (p Pattern) matches(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return Match(p.Text, name) })
}

// Patterns allow and deny names. A denied name is denied even if it is also allowed. Without a list of allowed names, all names are
// allowed.
type Patterns struct {
	Line        int // of the list; 0 if there is none
	Restricts   bool
	Allow, Deny []Pattern
}

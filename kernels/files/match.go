package files

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-run/troupe/graph/status"
)

// special are the characters that make a name a pattern.
const special = `*?[\`

// Match returns the files that match a pattern (tsl/platform/file_system_helper.cc): * and ? match any characters except slashes, [a-z] and
// [!a-z] one character, and a backslash makes the next character literal. A pattern without a folder yields names that begin with "./". A
// name without wildcards yields itself, if the file exists. An unreadable folder counts as empty. The order is the system's.
//
// A missing right to the pattern's start, before its wildcards, is an error. What the wildcards lead to without rights counts as empty.
func Match(fsys FS, pattern string) ([]string, error) {
	if pattern == "" {
		return nil, nil
	}
	plain, err := Local(pattern)
	if err != nil {
		return nil, err
	}
	if !strings.ContainsAny(pattern, special) {
		_, err := fsys.Stat(plain)
		switch {
		case err == nil:
			return []string{pattern}, nil
		case refused(err):
			return nil, err
		}
		return nil, nil
	}
	levels := prefixes(pattern)
	first := slices.IndexFunc(levels, func(l string) bool { return strings.ContainsAny(l, special) })
	if first < 1 {
		return nil, status.InvalidArgumentf("Cannot find files by the pattern %s", pattern)
	}
	found := []string{levels[first-1]}
	for i := first; i < len(levels); i++ {
		var next []string
		for _, dir := range found {
			names, err := children(fsys, dir)
			if err != nil && (i == first || !refused(err)) {
				return nil, err
			}
			for _, name := range names {
				path := join(dir, name)
				if fnmatch(levels[i], path) && (i == len(levels)-1 || isDir(fsys, path)) {
					next = append(next, path)
				}
				if len(next) > maxNames {
					return nil, tooMany(pattern)
				}
			}
		}
		found = next
	}
	return found, nil
}

// prefixes returns the folders that a pattern names, from the outermost to the pattern itself.
func prefixes(pattern string) []string {
	if dirname(pattern[:strings.IndexAny(pattern, special)]) == "" {
		pattern = "./" + pattern
	}
	if strings.HasSuffix(pattern, "/") {
		pattern = dirname(pattern)
	}
	var all []string
	for {
		all = append(all, pattern)
		parent := dirname(pattern)
		if parent == "" || parent == pattern {
			break
		}
		pattern = parent
	}
	slices.Reverse(all)
	return all
}

func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// children returns the names in a folder; none if it is not a folder, or if the process may not read it.
func children(fsys FS, dir string) ([]string, error) {
	path, err := Local(dir)
	if err != nil {
		return nil, err
	}
	if err := Admit(fsys, path); err != nil {
		return nil, err
	}
	if !isDir(fsys, dir) {
		return nil, nil
	}
	names, err := fsys.List(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, Error(dir, err)
}

// Admit returns why a session may not use what another one has opened at a path. It returns nil if nothing exists there anymore.
func Admit(fsys FS, path string) error {
	if _, err := fsys.Stat(path); refused(err) {
		return err
	}
	return nil
}

// refused reports whether an error says that a session, rather than the server, lacks the right to a file.
func refused(err error) bool {
	var coded *status.Error
	return errors.As(err, &coded) && coded.Code == status.PermissionDenied
}

func isDir(fsys FS, name string) bool {
	path, err := Local(name)
	if err != nil {
		return false
	}
	info, err := fsys.Stat(path)
	return err == nil && info.IsDir()
}

// fnmatch reports whether a path matches a pattern under POSIX rules with FNM_PATHNAME.
func fnmatch(pattern, path string) bool {
	// Where to continue when a * must match one more character. It never matches a slash, so only the last * since a slash counts.
	starPattern, starPath := "", ""
	star := false
	for {
		if pattern != "" && pattern[0] == '*' {
			pattern = pattern[1:]
			star, starPattern, starPath = true, pattern, path
			continue
		}
		if path == "" && pattern == "" {
			return true
		}
		if path != "" && pattern != "" {
			c, size := utf8.DecodeRuneInString(path)
			if rest, ok := one(pattern, c); ok {
				pattern, path = rest, path[size:]
				if c == '/' {
					star = false
				}
				continue
			}
		}
		if !star || starPath == "" || starPath[0] == '/' {
			return false
		}
		_, size := utf8.DecodeRuneInString(starPath)
		starPath = starPath[size:]
		pattern, path = starPattern, starPath
	}
}

// one matches a character with the first element of a pattern, which is not a *, and returns the rest of the pattern.
func one(pattern string, c rune) (rest string, ok bool) {
	p, size := utf8.DecodeRuneInString(pattern)
	rest = pattern[size:]
	switch p {
	case '?':
		return rest, c != '/'
	case '[':
		if after, ok, closed := bracket(rest, c); closed {
			return after, ok && c != '/'
		}
	case '\\':
		if rest == "" {
			return "", false
		}
		p, size = utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	return rest, p == c
}

// bracket matches a character with a set whose opening bracket has been read. closed is false if there is no closing bracket; then it is
// not a set.
func bracket(pattern string, c rune) (rest string, ok, closed bool) {
	negated := false
	if pattern != "" && (pattern[0] == '!' || pattern[0] == '^') {
		negated, pattern = true, pattern[1:]
	}
	in := false
	for first := true; pattern != ""; first = false {
		if pattern[0] == ']' && !first {
			return pattern[1:], in != negated, true
		}
		if name, after, isClass := class(pattern); isClass {
			in = in || name(c)
			pattern = after
			continue
		}
		low, after := element(pattern)
		high := low
		if strings.HasPrefix(after, "-") && len(after) > 1 && after[1] != ']' {
			high, after = element(after[1:])
		}
		in = in || low <= c && c <= high
		pattern = after
	}
	return "", false, false
}

// element reads a character of a set.
func element(pattern string) (rune, string) {
	if pattern[0] == '\\' && len(pattern) > 1 {
		pattern = pattern[1:]
	}
	c, size := utf8.DecodeRuneInString(pattern)
	return c, pattern[size:]
}

var classes = map[string]func(rune) bool{
	"alnum":  func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) },
	"alpha":  unicode.IsLetter,
	"blank":  func(c rune) bool { return c == ' ' || c == '\t' },
	"cntrl":  unicode.IsControl,
	"digit":  func(c rune) bool { return '0' <= c && c <= '9' },
	"graph":  func(c rune) bool { return unicode.IsGraphic(c) && !unicode.IsSpace(c) },
	"lower":  unicode.IsLower,
	"print":  unicode.IsPrint,
	"punct":  func(c rune) bool { return unicode.IsPunct(c) || unicode.IsSymbol(c) },
	"space":  unicode.IsSpace,
	"upper":  unicode.IsUpper,
	"xdigit": func(c rune) bool { return strings.ContainsRune("0123456789abcdefABCDEF", c) },
}

// class reads a class of characters such as [:digit:].
func class(pattern string) (in func(rune) bool, rest string, ok bool) {
	name, found := strings.CutPrefix(pattern, "[:")
	if !found {
		return nil, "", false
	}
	name, rest, found = strings.Cut(name, ":]")
	if in = classes[name]; !found || in == nil {
		return nil, "", false
	}
	return in, rest, true
}

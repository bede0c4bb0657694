// Package plain prints text that may come from clients, other tasks and files (names of nodes, queues and sessions, texts of errors) without
// control characters: it neither ends a line nor controls the operator's terminal.
package plain

import (
	"fmt"
	"io"
	"strings"

	"github.com/troupe-run/troupe/internal/view"
)

// Printf prints with a format, whose arguments are made lines as by [Line]. Lines end where the format says.
func Printf(w io.Writer, format string, args ...any) (int, error) {
	for i, a := range args {
		args[i] = argument{a}
	}
	return fmt.Fprintf(w, format, args...)
}

// argument is an argument of Printf, formatted as it would be by fmt and made a line.
type argument struct{ value any }

// Format formats the argument.
func (a argument) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, Line(fmt.Sprintf(fmt.FormatString(f, verb), a.value))) // into memory
}

// Println prints lines, each as by [Line], or an empty line if there are none.
func Println(w io.Writer, lines ...string) (int, error) {
	all := make([]string, max(len(lines), 1))
	for i, l := range lines {
		all[i] = Line(l)
	}
	return io.WriteString(w, strings.Join(all, "\n")+"\n")
}

// Text is a text of several lines, such as an error. All but the first are indented: none looks like a line of the command itself.
func Text(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		words := strings.TrimLeft(l, " \t")
		indent := l[:len(l)-len(words)]
		if i > 0 && indent == "" && words != "" {
			indent = "    "
		}
		lines[i] = indent + Line(words)
	}
	return strings.Join(lines, "\n")
}

// Line returns text in one line, with everything replaced that may control a terminal.
func Line(text string) string { return view.Printable(text) }

package show

import (
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/troupe-run/troupe/internal/command/plain"
	"golang.org/x/text/width"
)

// Column is a column of a Table.
type Column struct {
	Head string
	// Right aligns the cells to the right, as numbers are.
	Right bool
	// Flexible cells are truncated if the table is wider than the terminal.
	Flexible bool
	// Optional columns are left out if that is not enough, the last one first.
	Optional bool
}

// Table is a table of aligned columns. Rows may have fewer cells than there are columns.
type Table struct {
	empty   string
	columns []Column
	rows    [][]string
	notes   map[int]string // by row
}

// NewTable returns a table without rows. While it has none, it prints the text empty.
func NewTable(empty string, columns ...Column) *Table { return &Table{empty: empty, columns: columns} }

// Columns returns columns with heads. Signs at the end of a head set the column's properties: ">" is Right, "~" Flexible, "?" Optional.
func Columns(heads ...string) []Column {
	columns := make([]Column, len(heads))
	for i, h := range heads {
		head := strings.TrimRight(h, ">~?")
		is := func(sign string) bool { return strings.Contains(h[len(head):], sign) }
		columns[i] = Column{Head: head, Right: is(">"), Flexible: is("~"), Optional: is("?")}
	}
	return columns
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.columns))
	for i := range min(len(cells), len(row)) {
		row[i] = plain.Line(cells[i])
	}
	t.rows = append(t.rows, row)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Note adds a text below the last row. It is wrapped, not truncated.
func (t *Table) Note(text string) {
	if t.notes == nil {
		t.notes = map[int]string{}
	}
	t.notes[len(t.rows)-1] = plain.Line(text)
}

const (
	gap = "  "
	// indent is how far notes are indented.
	indent = "    "
	// narrowest is the minimum width of a flexible column.
	narrowest = 6
	// readable is the width below which flexible columns do not shrink before optional ones are left out.
	readable = 16
)

// Write writes the table, in lines of at most the given number of terminal columns; 0 means no limit.
func (t *Table) Write(w io.Writer, columns int) error {
	_, err := io.WriteString(w, strings.Join(t.Lines(columns), "\n")+"\n")
	return err
}

// Lines returns the lines of the table, the heads first.
func (t *Table) Lines(columns int) []string {
	if len(t.rows) == 0 {
		return wrap(t.empty, columns)
	}
	widths := t.widths(columns)
	heads := make([]string, len(t.columns))
	for i, c := range t.columns {
		heads[i] = c.Head
	}
	lines := append(make([]string, 0, len(t.rows)+1), t.line(heads, widths, columns))
	for i, row := range t.rows {
		lines = append(lines, t.line(row, widths, columns))
		for _, line := range wrap(t.notes[i], columns-len(indent)) {
			if line = indent + line; columns > 0 {
				line = Cut(line, columns)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// line lays out the cells of a row.
func (t *Table) line(row []string, widths []int, columns int) string {
	var line strings.Builder
	for i, cell := range row {
		if widths[i] == 0 {
			continue
		}
		if line.Len() > 0 {
			line.WriteString(gap)
		}
		cell = Cut(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-Width(cell))
		if t.columns[i].Right {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
	}
	text := strings.TrimRight(line.String(), " ")
	if columns > 0 {
		text = Cut(text, columns)
	}
	return text
}

// wrap divides a text into lines of at most the given number of terminal columns, between words if possible. It leaves the text as it is if
// there are only a few columns.
func wrap(text string, columns int) (lines []string) {
	if text == "" {
		return nil
	}
	if columns < 2*narrowest {
		return []string{text}
	}
	line, taken := "", 0
	for word := range strings.FieldsSeq(text) {
		for Width(word) > columns {
			head := beginning(word, columns)
			if line != "" {
				lines = append(lines, line)
				line, taken = "", 0
			}
			lines, word = append(lines, head), word[len(head):]
		}
		switch n := Width(word); {
		case line == "":
			line, taken = word, n
		case taken+1+n <= columns:
			line, taken = line+" "+word, taken+1+n
		default:
			lines = append(lines, line)
			line, taken = word, n
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// widths returns the widths of the columns: those of the cells, except for flexible columns that must shrink, and optional ones that are
// left out, which are 0.
func (t *Table) widths(columns int) []int {
	widths := make([]int, len(t.columns))
	total := len(gap) * (len(widths) - 1)
	for i, c := range t.columns {
		widths[i] = Width(c.Head)
		for _, row := range t.rows {
			widths[i] = max(widths[i], Width(row[i]))
		}
		total += widths[i]
	}
	if columns <= 0 || total <= columns {
		return widths
	}
	least := 0
	for i, c := range t.columns {
		least += len(gap) + widths[i]
		if c.Flexible {
			least -= max(widths[i]-readable, 0)
		}
	}
	for i, c := range slices.Backward(t.columns) {
		if c.Optional && least-len(gap) > columns {
			least -= len(gap) + widths[i]
			total -= len(gap) + widths[i]
			widths[i] = 0
		}
	}
	// The widest flexible columns shrink first, down to the same width.
	for over := total - columns; over > 0; {
		widest, next := 0, narrowest
		var which []int
		for i, c := range t.columns {
			if c.Flexible && widths[i] > widest {
				widest = widths[i]
			}
		}
		for i, c := range t.columns {
			switch {
			case !c.Flexible:
			case widths[i] == widest:
				which = append(which, i)
			default:
				next = max(next, widths[i])
			}
		}
		if widest <= narrowest {
			break // the lines are cut
		}
		give := min(widest-next, (over+len(which)-1)/len(which))
		for _, i := range which {
			widths[i] -= give
			over -= give
		}
	}
	return widths
}

// Width returns how many columns of a terminal a text takes.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// Cut shortens a text to the given number of terminal columns. The last one marks the cut.
func Cut(text string, columns int) string {
	if Width(text) <= columns {
		return text
	}
	return beginning(text, columns-1) + "…"
}

// beginning returns as much of a text as fits the given number of terminal columns.
func beginning(text string, columns int) string {
	n := 0
	for i, r := range text {
		if n += runeWidth(r); n > columns {
			return text[:i]
		}
	}
	return text
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "; ")
}

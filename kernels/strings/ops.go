package strings

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/parse"
	"github.com/troupe-run/troupe/kernels/internal/printing"
)

// newStringFormat returns the kernel that replaces the placeholders of a template with its inputs, printed as by tf.print.
func newStringFormat(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	template, placeholder, summarize := a.Str("template"), a.Str("placeholder"), a.Int("summarize")
	if err := a.Err(); err != nil {
		return nil, err
	}
	parts := []string{template}
	if placeholder != "" {
		parts = strings.Split(template, placeholder)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if n := len(ctx.Inputs); n != len(parts)-1 {
			return status.InvalidArgumentf("num placeholders in template and num inputs must match: %d vs. %d", len(parts)-1, n)
		}
		m := ctx.Meter()
		defer m.Done()
		var out strings.Builder
		out.WriteString(parts[0])
		for i := range ctx.Inputs {
			if err := takePrinted(&m, ctx.Input(i), int(summarize), len(parts[i+1])); err != nil {
				return err
			}
			out.WriteString(printing.SummaryV2(ctx.Input(i), int(summarize)))
			out.WriteString(parts[i+1])
		}
		return args.OutputString(ctx, out.String())
	}), nil
}

// takePrinted accounts for the printed size of a tensor, with describe elements at each end of a dimension (negative: all), and for rest
// bytes that are printed after it.
func takePrinted(m *kernels.Meter, t *tensor.Tensor, summarize, rest int) error {
	const each, char = 64, 8 // a growing builder holds its text twice, and bytes of strings may be escaped
	shown := t.Len()
	if summarize >= 0 {
		n := 1
		for range t.Rank() {
			n = min(n*(2*min(summarize, shown)+1), shown)
		}
		shown = n
	}
	if err := m.Take(4 * rest); err != nil {
		return err
	}
	if t.DType() == tensor.String {
		if err := m.TakeMany(t.ByteSize(), char); err != nil {
			return err
		}
	}
	return m.TakeMany(shown, each)
}

// newStringJoin returns the kernel that joins strings of the inputs position by position; scalars are repeated for each position.
func newStringJoin(c *kernels.Construction) (any, error) {
	separator, err := c.Attrs().Str("separator")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		var shape tensor.Shape
		for i := range ctx.Inputs {
			switch s := ctx.Input(i).Shape(); {
			case len(s) == 0 || s.Equal(shape):
			case len(shape) == 0:
				shape = s
			default:
				return status.InvalidArgumentf("Input shapes do not match: %v vs. %v", shape, s)
			}
		}
		out, err := ctx.Allocate(0, tensor.String, shape)
		if err != nil {
			return err
		}
		m := ctx.Meter()
		defer m.Done()
		joined := make([]string, len(ctx.Inputs))
		for i := range out.Strings() {
			size := len(separator) * max(len(joined)-1, 0)
			for j := range joined {
				in := ctx.Input(j)
				k := i
				if in.Rank() == 0 {
					k = 0
				}
				joined[j] = in.Strings()[k]
				size += len(joined[j])
			}
			if err := m.Take(size); err != nil {
				return err
			}
			out.Strings()[i] = join(joined, separator, size)
		}
		return nil
	}), nil
}

// join joins texts, whose total size with the separators is size bytes.
func join(texts []string, separator string, size int) string {
	b := make([]byte, size)
	at := 0
	for i, text := range texts {
		if i > 0 {
			at += copy(b[at:], separator)
		}
		at += tensor.Copy(b[at:], unsafe.Slice(unsafe.StringData(text), len(text)))
	}
	return unsafe.String(unsafe.SliceData(b), len(b)) // b is no longer written to
}

// eachString returns the kernel that maps each string of input 0 to another of similar length.
func eachString(f func(string) string) kernels.Func {
	return eachBounded(func(s string) int { return 3 * len(s) }, f)
}

// eachBounded is eachString with a bound on the length of f's result.
func eachBounded(most func(string) int, f func(string) string) kernels.Func {
	return func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, tensor.String, in.Shape())
		if err != nil {
			return err
		}
		m := ctx.Meter()
		defer m.Done()
		dst := out.Strings()
		for i, s := range in.Strings() {
			bound := most(s)
			if err := m.Take(bound); err != nil {
				return err
			}
			text := f(s)
			m.Give(max(bound-len(text), 0))
			dst[i] = text
		}
		return nil
	}
}

func newStringLength(c *kernels.Construction) (any, error) {
	unit, err := c.Attrs().Str("unit")
	if err != nil {
		return nil, err
	}
	length := func(s string) int { return len(s) }
	switch unit {
	case "BYTE":
	case "UTF8_CHAR":
		length = characters
	default:
		return nil, status.InvalidArgumentf("Unknown unit %q of StringLength", unit)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, tensor.Int32, in.Shape())
		if err != nil {
			return err
		}
		for i, s := range in.Strings() {
			tensor.Of[int32](out)[i] = int32(length(s))
		}
		return nil
	}), nil
}

// characters counts the bytes that begin a character. Text that is not UTF-8 has a number of characters, too.
func characters(s string) int {
	n := 0
	for i := range len(s) {
		n += element.OneIf(!trails(s[i]))
	}
	return n
}

// newStringToNumber returns the kernel that parses decimal numbers, which may be surrounded by spaces.
func newStringToNumber(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("out_type")
	if err != nil {
		return nil, err
	}
	read, ok := numberReaders[dtype]
	if !ok {
		return nil, status.Unimplementedf("StringToNumber with out_type=%v is not supported", dtype)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, dtype, in.Shape())
		if err != nil {
			return err
		}
		for i, s := range in.Strings() {
			if !read(out, i, parse.TrimSpace(s)) {
				return status.InvalidArgumentf("StringToNumberOp could not correctly convert string: %s", s)
			}
		}
		return nil
	}), nil
}

var numberReaders = func() map[tensor.DType]parse.Setter {
	readers := parse.Numbers(parse.Int, parse.Float)
	unsigned := func(s string, bits int) (uint64, error) {
		return strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, bits)
	}
	readers[tensor.Uint32], readers[tensor.Uint64] = parse.Number[uint32](32, unsigned), parse.Number[uint64](64, unsigned)
	return readers
}()

// shardedFilename outputs the name of one of several files.
func shardedFilename(ctx *kernels.Context) error {
	for i := range 3 {
		if t := ctx.Input(i); t.Rank() != 0 {
			return status.InvalidArgumentf("%s must be a scalar, got shape %v", []string{"basename", "shard", "num_shards"}[i], t.Shape())
		}
	}
	shard, err1 := args.ScalarInput32(ctx, 1, "shard must be a scalar, got shape %v")
	shards, err2 := args.ScalarInput32(ctx, 2, "num_shards must be a scalar, got shape %v")
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	return args.OutputString(ctx, fmt.Sprintf("%s-%05d-of-%05d", ctx.Input(0).Strings()[0], shard, shards))
}

// pattern compiles an RE2 regular expression; Go has the same syntax.
func pattern(s string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, status.InvalidArgumentf("Invalid pattern: %s, error: %v", s, err)
	}
	return re, nil
}

// fullMatch returns a pattern that must match the whole string.
func fullMatch(s string) (*regexp.Regexp, error) {
	if _, err := pattern(s); err != nil {
		return nil, err
	}
	return pattern(`\A(?:` + s + `)\z`)
}

func matchEach(ctx *kernels.Context, re *regexp.Regexp) error {
	in := ctx.Input(0)
	out, err := ctx.Allocate(0, tensor.Bool, in.Shape())
	if err != nil {
		return err
	}
	for i, s := range in.Strings() {
		tensor.Of[bool](out)[i] = re.MatchString(s)
	}
	return nil
}

func newStaticRegexFullMatch(c *kernels.Construction) (any, error) {
	s, err := c.Attrs().Str("pattern")
	if err != nil {
		return nil, err
	}
	re, err := fullMatch(s)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return matchEach(ctx, re) }), nil
}

func regexFullMatch(ctx *kernels.Context) error {
	if err := args.NeedScalar(ctx.Input(1), tensor.String, "Pattern must be scalar, but received %v"); err != nil {
		return err
	}
	re, err := fullMatch(ctx.Input(1).Strings()[0])
	if err != nil {
		return err
	}
	return matchEach(ctx, re)
}

// replacer replaces the first match or all matches of a pattern. In the rewrite, \1 to \9 stand for groups, \0 for the whole match, and \\
// for a backslash.
func replacer(patternText, rewrite string, all bool) (kernels.Func, error) {
	re, err := pattern(patternText)
	if err != nil {
		return nil, err
	}
	template, highest := goTemplate(rewrite)
	if highest > re.NumSubexp() || highest < 0 { // replace nothing
		return eachString(func(s string) string { return s }), nil
	}
	// A text has at most one match more than bytes, and the matches of one group are together no longer than the text. The result is built
	// in a growing buffer.
	groups := strings.Count(template, "${")
	most := func(s string) int {
		matches := 1
		if all {
			matches += len(s)
		}
		return saturated(saturated(matches, len(rewrite))+saturated(groups+1, len(s)), 2)
	}
	return eachBounded(most, func(s string) string {
		if all {
			return re.ReplaceAllString(s, template)
		}
		at := re.FindStringSubmatchIndex(s)
		if at == nil {
			return s
		}
		return s[:at[0]] + string(re.ExpandString(nil, template, s, at)) + s[at[1]:]
	}), nil
}

// saturated returns the product of two non-negative numbers, or a large number on overflow.
func saturated(a, b int) int {
	const large = math.MaxInt64 / 8
	if b > 0 && a > large/b {
		return large
	}
	return a * b
}

// goTemplate converts a rewrite to Go's notation, and returns the highest group that it names; -1 if a backslash is invalid.
func goTemplate(rewrite string) (template string, highest int) {
	var b strings.Builder
	for i := 0; i < len(rewrite); i++ {
		switch c := rewrite[i]; {
		case c == '$':
			b.WriteString("$$")
		case c == '\\' && i+1 < len(rewrite) && rewrite[i+1] >= '0' && rewrite[i+1] <= '9':
			i++
			if highest >= 0 {
				highest = max(highest, int(rewrite[i]-'0'))
			}
			b.WriteString("${" + rewrite[i:i+1] + "}")
		case c == '\\' && i+1 < len(rewrite) && rewrite[i+1] == '\\':
			i++
			b.WriteByte('\\')
		case c == '\\':
			highest = -1
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), highest
}

func newStaticRegexReplace(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	s, rewrite, all := a.Str("pattern"), a.Str("rewrite"), a.Bool("replace_global")
	if err := a.Err(); err != nil {
		return nil, err
	}
	f, err := replacer(s, rewrite, all)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func newRegexReplace(c *kernels.Construction) (any, error) {
	all, err := c.Attrs().Bool("replace_global")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.NeedScalar(ctx.Input(1), tensor.String, "Pattern must be scalar, but received %v"); err != nil {
			return err
		}
		if err := args.NeedScalar(ctx.Input(2), tensor.String, "Rewrite must be scalar, but received %v"); err != nil {
			return err
		}
		f, err := replacer(ctx.Input(1).Strings()[0], ctx.Input(2).Strings()[0], all)
		if err != nil {
			return err
		}
		return f(ctx)
	}), nil
}

package flagset

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Longest is the most that a flag's time can be, unless something bounds it further: such times can be added without an overflow.
const Longest = 365 * 24 * time.Hour

// Bounds are the values of a flag that a command can work with. With OrZero, 0 is one of them, too, and usually stands for a default.
type Bounds[T cmp.Ordered] struct {
	Least, Most T
	OrZero      bool
}

// UpTo returns the bounds of a number from 0 to most.
func UpTo[T cmp.Ordered](most T) Bounds[T] { return Bounds[T]{Most: most} }

// Wait are the bounds of how long a command waits for something.
var Wait = Bounds[time.Duration]{Least: time.Millisecond, Most: Longest}

// kind is how the numbers of a flag are read and written.
type kind[T cmp.Ordered] struct {
	name  string // in the help, as pflag calls it
	parse func(string) (T, error)
	text  func(T) string
}

var (
	times = kind[time.Duration]{"duration", func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time with a unit, such as 30s or 5m", text)
		}
		return d, nil
	}, durationText}
	integers = kind[int]{"int", func(text string) (int, error) {
		n, err := strconv.ParseInt(text, 0, strconv.IntSize)
		return int(n), whole(text, err)
	}, strconv.Itoa}
	longs = kind[int64]{"int", func(text string) (int64, error) {
		n, err := strconv.ParseInt(text, 0, 64)
		return n, whole(text, err)
	}, func(n int64) string { return strconv.FormatInt(n, 10) }}
	naturals = kind[uint64]{"uint", func(text string) (uint64, error) {
		n, err := strconv.ParseUint(text, 0, 64)
		return n, whole(text, err)
	}, func(n uint64) string { return strconv.FormatUint(n, 10) }}
	fractions = kind[float64]{"float", func(text string) (float64, error) {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) {
			return 0, fmt.Errorf("%q is not a number", text)
		}
		return f, nil
	}, func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }}
	sizes = kind[Size]{"bytes", parseSize, Size.text}
)

// whole returns the error for a text that is not a whole number; err is strconv's.
func whole(text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q is not a whole number in this range", text)
}

// durationText writes a time without the units of which there are none: 1h, not 1h0m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// limits says which values there are.
func (b Bounds[T]) limits(text func(T) string) string {
	said := fmt.Sprintf("from %s to %s", text(b.Least), text(b.Most))
	if b.OrZero {
		said = "0, or " + said
	}
	return said
}

// number is the value of a flag that is a number within bounds.
type number struct {
	name string // of its kind
	set  func(text string) error
	text func() string
}

// Set reads the flag's value. The error says which values there are.
func (n *number) Set(text string) error { return n.set(text) }

// String returns the value. The help leaves out the default 0.
func (n *number) String() string {
	if n.text == nil {
		return "" // the help makes a value of its own, to compare
	}
	return n.text()
}

// Type returns what help calls the value.
func (n *number) Type() string { return n.name }

// Duration adds a flag that is a time with a unit.
func Duration(flags *pflag.FlagSet, at *time.Duration, name string, value time.Duration, bounds Bounds[time.Duration], usage string) {
	add(flags, at, name, value, times, bounds, usage)
}

// Int adds a flag that is a whole number.
func Int(flags *pflag.FlagSet, at *int, name string, value int, bounds Bounds[int], usage string) {
	add(flags, at, name, value, integers, bounds, usage)
}

// Int64 adds a flag that is a whole number.
func Int64(flags *pflag.FlagSet, at *int64, name string, value int64, bounds Bounds[int64], usage string) {
	add(flags, at, name, value, longs, bounds, usage)
}

// Uint64 adds a flag that is a whole number which is not negative.
func Uint64(flags *pflag.FlagSet, at *uint64, name string, value uint64, bounds Bounds[uint64], usage string) {
	add(flags, at, name, value, naturals, bounds, usage)
}

// Float64 adds a flag that is a number.
func Float64(flags *pflag.FlagSet, at *float64, name string, value float64, bounds Bounds[float64], usage string) {
	add(flags, at, name, value, fractions, bounds, usage)
}

// Bytes adds a flag that is a number of bytes, and 0 at first.
func Bytes(flags *pflag.FlagSet, at *Size, name string, bounds Bounds[Size], usage string) {
	add(flags, at, name, 0, sizes, bounds, usage)
}

func add[T cmp.Ordered](flags *pflag.FlagSet, at *T, name string, value T, kind kind[T], bounds Bounds[T], usage string) {
	*at = value
	var zero T
	flags.Var(&number{kind.name, func(text string) error {
		v, err := kind.parse(text)
		if err != nil {
			return fmt.Errorf("%w; it is %s", err, bounds.limits(kind.text))
		}
		if (v < bounds.Least || v > bounds.Most) && (!bounds.OrZero || v != zero) {
			return fmt.Errorf("it is %s", bounds.limits(kind.text))
		}
		*at = v
		return nil
	}, func() string {
		if *at == zero {
			return "0"
		}
		return kind.text(*at)
	}}, name, usage)
}

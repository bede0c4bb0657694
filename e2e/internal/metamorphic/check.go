package metamorphic

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// Finding is a program that did not run correctly.
type Finding struct {
	Program *Program
	Variant Variant
	Err     error
}

// String shows the program and how to run it again.
func (f *Finding) String() string {
	return fmt.Sprintf("the program of seed %d (-graph-seed=%d -graphs=1), %s:\n%v\nits %d statements:\n%s",
		f.Program.Seed, f.Program.Seed, f.Variant, f.Err, f.Program.Size(), f.Program)
}

// kind classifies failures: hangs, wrong values, and errors by their code.
func (f *Finding) kind() string {
	switch code := status.CodeOf(f.Err); {
	case code == status.DeadlineExceeded:
		return "hang"
	case strings.Contains(f.Err.Error(), ", not "):
		return "value"
	default:
		return fmt.Sprint(code)
	}
}

// Variants returns the variants in which the program of a seed is run: on one task, on two or three, and on four, or as many devices.
func Variants(seed uint64) []Variant {
	r := scramble(seed, 19)
	var out []Variant
	for i := 0; i < len(shapes); i += 2 {
		v := Variant{Shape: i + r.IntN(2), Masters: [2]int{r.IntN(4), r.IntN(4)}, Turn: r.IntN(4), Lower: Lowering(r.IntN(3)),
			FeedConsts: r.IntN(3) == 0, Trace: r.IntN(6) == 0}
		if r.IntN(2) == 0 {
			v.Shuffle = r.Uint64()
		}
		out = append(out, v)
	}
	return out
}

// Check runs the program of a seed in its variants. It returns nil if all results are correct.
func (c *Clusters) Check(ctx context.Context, seed uint64, deadline time.Duration) (*Finding, error) {
	p := Of(seed)
	for _, v := range Variants(seed) {
		if err := c.Play(ctx, p, v, deadline); err != nil {
			return &Finding{p, v, err}, nil //nolint:nilerr // The finding has the error: what failed is the program, not the check.
		}
	}
	return nil, c.tidy(ctx)
}

package client

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// TestSeeds checks when the next of several servers is asked: at once if one fails, and after a pause if it says
// nothing.
func TestSeeds(t *testing.T) {
	for name, c := range map[string]struct {
		servers string // what each does: it answers, fails, or is silent
		first   string // the target that answers; empty if none does
		after   time.Duration
	}{
		"the first answers":           {"answers fails", "grpc://a:1", 0},
		"the first fails":             {"fails answers", "grpc://b:1", 0},
		"two fail":                    {"fails fails answers", "grpc://c:1", 0},
		"the first is silent":         {"silent answers", "grpc://b:1", seedPause},
		"two are silent":              {"silent silent answers", "grpc://c:1", 2 * seedPause},
		"one is silent":               {"silent fails", "", seedTime},
		"all fail":                    {"fails fails fails", "", 0},
		"all are silent":              {"silent silent silent", "", 2*seedPause + seedTime},
		"a single one that is silent": {"silent", "", seedTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			config, err := configOf(nil)
			if err != nil {
				t.Fatal(err)
			}
			does := map[string]string{}
			var targets []string
			for i, what := range strings.Fields(c.servers) {
				target := "grpc://" + string(rune('a'+i)) + ":1"
				targets, does[target] = append(targets, target), what
			}
			begun := time.Now()
			found, from, err := firstOf(t.Context(), targets, config, func(ctx context.Context, c *Client) (string, error) {
				switch does[c.Target()] {
				case "answers":
					return c.Target(), nil
				case "fails":
					return "", status.New(status.Unavailable, "connection refused")
				}
				<-ctx.Done()
				return "", status.From(ctx.Err())
			})
			if took := time.Since(begun); took != c.after || from != c.first {
				t.Errorf("%s: %q answers after %v, want %q after %v", name, from, took, c.first, c.after)
			}
			if c.first != "" {
				if err != nil || found.Target() != c.first {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			if status.CodeOf(err) != status.Unavailable {
				t.Errorf("%s: %v", name, err)
			}
			reasons := map[string]string{"fails": "connection refused", "silent": "it did not answer in time"}
			for target, what := range does {
				if !strings.Contains(err.Error(), target+": "+reasons[what]) {
					t.Errorf("%s: %v does not say why %s is not used", name, err, target)
				}
			}
		})
	}
}

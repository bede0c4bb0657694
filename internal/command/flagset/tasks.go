package flagset

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseTasks parses how many tasks each job has: ps=1,worker=2.
func ParseTasks(text string) (map[string]int, error) {
	jobs := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		name, count, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(count)
		switch {
		case !ok || err != nil:
			return nil, fmt.Errorf("%q does not say how many tasks a job has, as in ps=1,worker=2", part)
		case n < 1:
			return nil, fmt.Errorf("%q: a job has at least one task", part)
		}
		if jobs[name] > 0 {
			return nil, fmt.Errorf("the job %s is given twice", name)
		}
		jobs[name] = n
	}
	return jobs, nil
}

// Package words is the messages of the word count's actors.
package words

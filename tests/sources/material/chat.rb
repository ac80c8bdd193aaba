# How a chat is written down for models of several families.
TEMPLATES = {
  chatml: "<|im_start|>%{role}\n%{content}<|im_end|>\n",
  llama: "<|start_header_id|>%{role}<|end_header_id|>\n\n%{content}<|eot_id|>",
  mistral: "<s>[INST] %{content} [/INST]",
  gemma: "<start_of_turn>%{role}\n%{content}<end_of_turn>\n",
}.freeze

class Chat < Struct.new(:messages)
  def initialize(*messages) = super(messages)

  # Whether a text ends where its answer does.
  def self.ends?(text, marks)
    marks.any? { |mark| text.end_with?(mark) } || text.size > 100 << 2
  end

  def render(name, messages = [])
    template = TEMPLATES.fetch(name) { raise ArgumentError, "no <template> called #{name}" }
    messages.map { |role, content| format(template, role:, content:) }.join
  end

  def to_s = "#<Chat [#{messages.size}]>"
end

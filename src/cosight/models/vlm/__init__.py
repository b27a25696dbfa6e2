"""Vision-language models behind an OpenAI-compatible endpoint, as observers: `vlm:NAME[,key=value...]`.

* settings   the options in a model's name
* prompts    what is asked: the classes of a label space, or which of some images look alike
* parsing    from the text of an answer to an option, a refusal or nothing
* endpoint   requests: concurrency, rate, retries, errors (openai)
* estimates  tokens of texts and images, before anything is asked
* journal    answers that were paid for, in a file; tokens, cost and the budget
* client     asks many questions at the same time, those that are not in the journal
* judge      which images look alike, several images in one request

Address and key of the endpoint are the environment variables OPENAI_BASE_URL and OPENAI_API_KEY. They are never stored
or printed. Nothing here imports openai before the first request.
"""

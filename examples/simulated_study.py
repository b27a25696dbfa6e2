"""Rehearse a study with simulated participants.

A small set of digits, a study of ten images, three simulated participants through the real server, the quality of
their answers, and a file of trials. Serve the same study to people with `cosight study serve survey`. Needs
`pip install 'cosight[stimuli,figures]'`.
"""

import cosight

cosight.build("digits", "digits", counts="1=10,2=0,3=0,4=0,5=0,6=0,7=0,8=0,train=10,calibration=4,distractors=12")
cosight.study.new("survey", type="classify", stimuli="digits", pool=10, answers=3)
print(cosight.study.simulate("survey", participants=3))
for row in cosight.study.quality("survey").agreement:
    print(row.measure, row.value)

cosight.study.export("survey", "answers.parquet", everyone=True)
print(cosight.trials.summarise(cosight.trials.read("answers.parquet")).observers)
